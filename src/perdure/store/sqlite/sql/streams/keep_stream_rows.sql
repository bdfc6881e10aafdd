-- Let what an attempt sent to a stream count for good, since it has succeeded.
-- Params: keys, JSON [[part, instance_id, token, execution, seq], ...]. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone. Jobs that
-- were claimed together have one token, so it is asked for the job as well.
UPDATE perdure_streams
SET token = 0
WHERE token <> 0
  AND (instance_id, stream, token, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        heads.stream,
        CAST(value ->> 2 AS INTEGER),
        CAST(value ->> 0 AS INTEGER)
    FROM (SELECT value FROM json_each(:keys) LIMIT -1)
    CROSS JOIN perdure_stream_heads AS heads
    WHERE heads.part = CAST(value ->> 0 AS INTEGER)
      AND heads.instance_id = CAST(value ->> 1 AS TEXT)
)
  AND EXISTS (
    SELECT 1
    FROM (SELECT value FROM json_each(:keys) LIMIT -1)
    WHERE value ->> 1 = perdure_streams.instance_id
      AND value ->> 2 = perdure_streams.token
      AND value ->> 3 = perdure_streams.execution
      AND value ->> 4 = perdure_streams.seq
);
