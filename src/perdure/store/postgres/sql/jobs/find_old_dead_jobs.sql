-- Find jobs that died before a time.
-- Params: before_ms; limit. Returns: one JSON text, [[part, instance_id, incarnation, execution,
-- seq], ...].
-- Reads the whole table, so it is no part of a transaction that writes.
SELECT coalesce(
    json_agg(json_build_array(
        found.part, found.instance_id, found.incarnation, found.execution, found.seq
    )),
    '[]'::json
)
FROM (
    SELECT part, instance_id, incarnation, execution, seq
    FROM perdure.dead_jobs
    WHERE died_ms < :before_ms::bigint
    LIMIT :limit::bigint
) AS found;
