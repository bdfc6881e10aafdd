-- Let what an attempt sent to a stream count for good, since it has succeeded.
-- Params: keys, JSON [[part, instance_id, token], ...]. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
UPDATE perdure_streams
SET token = 0
WHERE token <> 0
  AND (instance_id, stream, token, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        heads.stream,
        CAST(value ->> 2 AS INTEGER),
        CAST(value ->> 0 AS INTEGER)
    FROM json_each(:keys)
    CROSS JOIN perdure_stream_heads AS heads
    WHERE heads.part = CAST(value ->> 0 AS INTEGER)
      AND heads.instance_id = CAST(value ->> 1 AS TEXT)
);
