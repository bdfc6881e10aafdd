-- Read which streams an instance has.
-- Params: part; instance_id. Returns: stream, last_index, items that count, at_ms of the newest.
SELECT
    heads.stream,
    heads.next_index - 1,
    coalesce(sum(sent.items), 0)::bigint,
    coalesce(max(sent.at_ms), 0)
FROM perdure.perdure_stream_heads AS heads
LEFT JOIN perdure.perdure_streams AS sent
    ON sent.part = heads.part
   AND sent.instance_id = heads.instance_id
   AND sent.stream = heads.stream
   AND @counts
WHERE heads.part = :part::smallint
  AND heads.instance_id = :instance_id::text
GROUP BY heads.stream, heads.next_index
ORDER BY heads.stream;
