-- Remove dead jobs.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: the keys of
-- those that were there, without the part.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM dead_jobs
WHERE (instance_id, incarnation, execution, seq, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 2 AS INTEGER),
        CAST(value ->> 3 AS INTEGER),
        CAST(value ->> 4 AS INTEGER),
        CAST(value ->> 0 AS INTEGER)
    FROM (SELECT value FROM json_each(:keys) LIMIT -1)
    WHERE true
)
RETURNING instance_id, incarnation, execution, seq;
