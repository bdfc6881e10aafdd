-- Find ids that were never started and whose newest message came before a time.
-- Params: before_ms; limit. Returns: one JSON text, [[part, instance_id], ...].
-- Reads the whole table, so it is no part of a transaction that writes.
SELECT json_group_array(json_array(part, instance_id))
FROM (
    SELECT part, instance_id
    FROM live
    WHERE definition_no IS NULL
      AND last_at_ms < :before_ms
    LIMIT :limit
);
