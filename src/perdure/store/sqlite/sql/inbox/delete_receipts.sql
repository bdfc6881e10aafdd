-- Forget the delivered messages of an incarnation that is replaced.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM receipts
WHERE (instance_id, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 0 AS INTEGER)
    FROM json_each(:keys)
);
