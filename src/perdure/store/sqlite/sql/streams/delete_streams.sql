-- Remove what instances sent to streams.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM perdure_streams
WHERE (instance_id, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 0 AS INTEGER)
    FROM json_each(:keys)
);
