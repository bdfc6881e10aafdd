-- Find jobs that wait, or whose lease is to end, by a time that a wrong clock wrote.
-- Params: now_ms; later_ms (nothing is put off for so long); far_ms (no lease ends so late); limit.
-- Returns: one JSON text, [[part, instance_id, incarnation, execution, seq, visible_at_ms, token,
-- rest_ms], ...].
-- A job that was never tried waits for nothing, or a little if a worker gave it back. One that
-- failed at a time that is still to come waits for the rest of its pause. Reads the whole table, so
-- it is no part of a transaction that writes.
WITH waiting AS (
    SELECT *, CAST(failures AS TEXT) ->> '$.kept[#-1].at_ms' AS failed_ms
    FROM jobs
    WHERE visible_at_ms > :now_ms
),
stranded AS (
    SELECT
        *, CASE WHEN failed_ms > :now_ms THEN visible_at_ms - failed_ms ELSE 0 END AS rest_ms
    FROM waiting
    WHERE token <> 0 AND visible_at_ms > :far_ms
       OR token = 0 AND attempt = 0 AND created_ms > :now_ms
       OR token = 0 AND failures IS NULL AND visible_at_ms > :later_ms
       OR token = 0 AND failed_ms > :now_ms
    LIMIT :limit
)
SELECT json_group_array(json_array(
    part, instance_id, incarnation, execution, seq, visible_at_ms, token, rest_ms
))
FROM stranded;
