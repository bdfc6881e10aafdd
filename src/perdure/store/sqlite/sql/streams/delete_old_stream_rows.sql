-- Remove rows of streams that were found to be old, if their instance still has ended before then.
-- Params: keys, JSON [[part, instance_id, stream, last_index], ...]; before_ms. Returns: nothing.
-- Heads stay: an index is never given twice, also if the instance is reset.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM perdure_streams
WHERE (instance_id, stream, last_index, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 2 AS TEXT),
        CAST(value ->> 3 AS INTEGER),
        CAST(value ->> 0 AS INTEGER)
    FROM (SELECT value FROM json_each(:keys) LIMIT -1)
    WHERE true
)
  AND EXISTS (
      SELECT 1
      FROM instances
      WHERE instances.part = perdure_streams.part
        AND instances.instance_id = perdure_streams.instance_id
        AND instances.ended_ms < :before_ms
        AND instances.created_ms < :before_ms
  );
