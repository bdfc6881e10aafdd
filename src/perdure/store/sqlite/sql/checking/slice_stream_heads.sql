-- Read the streams of a range of ids.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, stream, next_index.
SELECT instance_id, stream, next_index
FROM perdure_stream_heads
WHERE @slice_range
ORDER BY part, instance_id, stream;
