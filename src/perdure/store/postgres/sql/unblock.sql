-- Offer the blocked instances of a definition to code that differs from the one that failed.
-- Params: definition_no; code; now_ms. Returns: for each whether it was offered; if not, somebody
-- else has locked it.
-- blocked_by stays until a commit clears it. What is offered already, or under a lease, has a
-- wake_at_ms and is left alone. The rows are locked in the order of their keys, as commits do it.
WITH blocked AS MATERIALIZED (
    SELECT live.part, live.instance_id
    FROM perdure.live
    WHERE live.definition_no = :definition_no::bigint
      AND live.blocked_by IS NOT NULL
      AND live.blocked_by NOT IN ('*', :code::text)
      AND live.wake_at_ms IS NULL
),
free AS MATERIALIZED (
    SELECT live.part, live.instance_id
    FROM blocked
    JOIN perdure.live
        ON live.part = ANY (ARRAY[blocked.part])
       AND live.instance_id = blocked.instance_id
    WHERE live.blocked_by IS NOT NULL
      AND live.wake_at_ms IS NULL
    ORDER BY blocked.part, blocked.instance_id
    FOR UPDATE OF live SKIP LOCKED
),
offered AS (
    UPDATE perdure.live
    SET wake_at_ms = :now_ms::bigint
    FROM free
    WHERE live.part = ANY (ARRAY[free.part])
      AND live.instance_id = free.instance_id
)
SELECT EXISTS (
    SELECT FROM free WHERE free.part = blocked.part AND free.instance_id = blocked.instance_id
)
FROM blocked;
