-- Find what attempts sent that have lost their jobs and did not succeed.
-- Params: part; instance_id. Returns: stream, last_index, items.
SELECT sent.stream, sent.last_index, sent.items
FROM perdure_stream_heads AS heads
CROSS JOIN perdure_streams AS sent
WHERE heads.part = :part
  AND heads.instance_id = :instance_id
  AND sent.part = heads.part
  AND sent.instance_id = heads.instance_id
  AND sent.stream = heads.stream
  AND @is_void
ORDER BY sent.stream, sent.last_index;
