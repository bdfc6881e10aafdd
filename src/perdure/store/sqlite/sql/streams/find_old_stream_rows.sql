-- Find rows of streams whose instance ended before a time, the first of each stream first.
-- Params: before_ms; limit. Returns: one JSON text, [[part, instance_id, stream, last_index], ...].
-- Looks at every stream, so it is no part of a transaction that writes.
SELECT json_group_array(json_array(part, instance_id, stream, last_index))
FROM (
    SELECT sent.part, sent.instance_id, sent.stream, sent.last_index
    FROM perdure_stream_heads AS heads
    CROSS JOIN instances
    CROSS JOIN perdure_streams AS sent
    WHERE instances.part = heads.part
      AND instances.instance_id = heads.instance_id
      AND instances.ended_ms < :before_ms
      AND instances.created_ms < :before_ms
      AND sent.part = heads.part
      AND sent.instance_id = heads.instance_id
      AND sent.stream = heads.stream
    ORDER BY heads.part, heads.instance_id, heads.stream, sent.last_index
    LIMIT :limit
);
