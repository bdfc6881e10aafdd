-- Read what counts of a stream behind an index, in order.
-- Params: part; instance_id; stream; after; limit.
-- Returns: last_index, items, discards_from, at_ms, body.
SELECT sent.last_index, sent.items, sent.discards_from, sent.at_ms, sent.body
FROM perdure_streams AS sent
WHERE sent.part = :part
  AND sent.instance_id = :instance_id
  AND sent.stream = :stream
  AND sent.last_index > :after
  AND @counts
ORDER BY sent.last_index
LIMIT :limit;
