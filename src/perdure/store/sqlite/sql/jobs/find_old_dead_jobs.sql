-- Find jobs that died before a time.
-- Params: before_ms; limit. Returns: one JSON text, [[part, instance_id, incarnation, execution,
-- seq], ...].
-- Reads the whole table, so it is no part of a transaction that writes.
SELECT json_group_array(json_array(part, instance_id, incarnation, execution, seq))
FROM (
    SELECT part, instance_id, incarnation, execution, seq
    FROM dead_jobs
    WHERE died_ms < :before_ms
    LIMIT :limit
);
