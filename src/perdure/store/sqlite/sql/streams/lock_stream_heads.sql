-- Read the streams of instances, and let no other send to them until the end of the transaction.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: stream, next_index.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
SELECT stream, next_index
FROM perdure_stream_heads
WHERE (instance_id, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 0 AS INTEGER)
    FROM json_each(:keys)
)
ORDER BY part, instance_id, stream;
