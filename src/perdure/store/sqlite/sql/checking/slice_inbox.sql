-- Read the messages of a range of ids, each inbox in the order in which it is applied.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, no, effective_at_ms, kind, body, execution, timer_key.
SELECT instance_id, no, effective_at_ms, kind, body, execution, timer_key
FROM inbox
WHERE @slice_range
ORDER BY part, instance_id, rank > 0, min(no, 0), effective_at_ms, rank, no;
