-- Remove the rows of unborn ids that were found to be old, if they still are.
-- Params: keys, JSON [[part, instance_id], ...]; before_ms. Returns: part, instance_id of each.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM live
WHERE (instance_id, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 0 AS INTEGER)
    FROM json_each(:keys)
)
  AND definition_no IS NULL
  AND last_at_ms < :before_ms
RETURNING part, instance_id;
