-- Remove receipts that were found to be old, if they still are and their instance is not live.
-- Params: keys, JSON [[part, instance_id, message_id], ...]; before_ms. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM receipts
WHERE (instance_id, message_id, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 2 AS TEXT),
        CAST(value ->> 0 AS INTEGER)
    FROM (SELECT value FROM json_each(:keys) LIMIT -1)
    WHERE true
)
  AND made_ms < :before_ms
  AND NOT EXISTS (
      SELECT 1
      FROM live
      WHERE live.part = receipts.part
        AND live.instance_id = receipts.instance_id
  );
