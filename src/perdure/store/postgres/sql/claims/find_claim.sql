-- Find what a claim has leased whose answer was lost.
-- Params: definitions, JSON [[definition_no, code], ...]; lease; until_ms, when it ends.
-- Returns: one JSON text, [[part, instance_id, lease], ...].
-- One index range per definition: what is leased wakes when its lease ends.
SELECT coalesce(
    json_agg(json_build_array(leased.part, leased.instance_id, leased.lease)), '[]'::json
)
FROM jsonb_array_elements(:definitions::jsonb) AS wanted (value)
CROSS JOIN LATERAL (
    SELECT live.part, live.instance_id, live.lease
    FROM perdure.live
    WHERE live.definition_no = (wanted.value ->> 0)::bigint
      AND live.wake_at_ms = :until_ms::bigint
      AND live.lease = :lease::bigint
    OFFSET 0
) AS leased;
