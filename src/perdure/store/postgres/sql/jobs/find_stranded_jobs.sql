-- Find jobs that wait, or whose lease is to end, by a time that a wrong clock wrote.
-- Params: now_ms; far_ms (no lease ends so late); limit. Returns: one JSON text, [[part,
-- instance_id, incarnation, execution, seq, visible_at_ms, token], ...].
-- A job that nobody has tried waits for nothing. Reads the whole table, so it is no part of a
-- transaction that writes.
SELECT coalesce(json_agg(json_build_array(
    part, instance_id, incarnation, execution, seq, visible_at_ms, token
)), '[]'::json)
FROM (
    SELECT part, instance_id, incarnation, execution, seq, visible_at_ms, token
    FROM perdure.jobs
    WHERE visible_at_ms > :now_ms::bigint
      AND (token <> 0 AND visible_at_ms > :far_ms::bigint
           OR token = 0 AND attempt = 0 AND created_ms > :now_ms::bigint)
    LIMIT :limit::bigint
) AS found;
