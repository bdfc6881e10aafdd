-- Find ids that were never started and whose newest message came before a time.
-- Params: before_ms; limit. Returns: one JSON text, [[part, instance_id], ...].
-- Reads the whole table, so it is no part of a transaction that writes.
SELECT coalesce(json_agg(json_build_array(found.part, found.instance_id)), '[]'::json)
FROM (
    SELECT part, instance_id
    FROM perdure.live
    WHERE definition_no IS NULL
      AND last_at_ms < :before_ms::bigint
    LIMIT :limit::bigint
) AS found;
