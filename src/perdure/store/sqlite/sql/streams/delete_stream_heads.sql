-- Remove the streams of instances, before what was sent to them: see lock_stream_heads.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM perdure_stream_heads
WHERE (instance_id, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 0 AS INTEGER)
    FROM json_each(:keys)
);
