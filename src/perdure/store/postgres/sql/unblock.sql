-- Offer the blocked instances of a definition to code that differs from the one that failed.
-- Params: definition_no; code; now_ms. Returns: a row for each.
-- blocked_by stays until a commit clears it. What is offered already, or under a lease, has a
-- wake_at_ms and is left alone. The rows are locked in the order of their keys, as commits do it,
-- and are waited for: one that is left out would not be offered again.
WITH blocked AS MATERIALIZED (
    SELECT live.part, live.instance_id
    FROM perdure.live
    WHERE live.definition_no = :definition_no::bigint
      AND live.blocked_by IS NOT NULL
      AND live.blocked_by NOT IN ('*', :code::text)
      AND live.wake_at_ms IS NULL
    ORDER BY live.part, live.instance_id
    FOR UPDATE
)
UPDATE perdure.live
SET wake_at_ms = :now_ms::bigint
FROM blocked
WHERE live.part = blocked.part
  AND live.instance_id = blocked.instance_id
RETURNING 1;
