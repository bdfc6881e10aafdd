-- Remove values that instances no longer keep.
-- Params: keys, JSON [[part, instance_id, key], ...]. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM kv
WHERE (instance_id, key, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 2 AS TEXT),
        CAST(value ->> 0 AS INTEGER)
    FROM (SELECT value FROM json_each(:keys) LIMIT -1)
    WHERE true
);
