-- Remove the wide row of an incarnation that is replaced.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM instances
WHERE (instance_id, incarnation, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 2 AS INTEGER),
        CAST(value ->> 0 AS INTEGER)
    FROM (SELECT value FROM json_each(:keys) LIMIT -1)
    WHERE true
);
