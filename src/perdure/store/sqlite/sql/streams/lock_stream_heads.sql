-- Read the streams of an instance, and let nobody send to them until the end of the transaction.
-- Params: part; instance_id. Returns: stream, next_index.
SELECT stream, next_index
FROM perdure_stream_heads
WHERE part = :part
  AND instance_id = :instance_id
ORDER BY stream;
