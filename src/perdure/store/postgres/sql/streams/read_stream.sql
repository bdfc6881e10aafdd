-- Read what counts of a stream behind an index, in order.
-- Params: part; instance_id; stream; after; limit.
-- Returns: last_index, items, discards_from, at_ms, body.
SELECT sent.last_index, sent.items, sent.discards_from, sent.at_ms, sent.body
FROM perdure.perdure_streams AS sent
WHERE sent.part = :part::smallint
  AND sent.instance_id = :instance_id::text
  AND sent.stream = :stream::text
  AND sent.last_index > :after::bigint
  AND @counts
ORDER BY sent.last_index
LIMIT :limit::bigint;
