-- Read the rows of streams of a range of ids, without what was sent.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, stream, last_index, items, discards_from, incarnation.
SELECT instance_id, stream, last_index, items, discards_from, incarnation
FROM perdure.perdure_streams
WHERE @slice_range
ORDER BY part, instance_id, stream, last_index;
