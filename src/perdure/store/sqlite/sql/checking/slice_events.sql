-- Read the events of a range of ids, in order.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, incarnation, execution, seq, kind, at_ms, body.
SELECT instance_id, incarnation, execution, seq, kind, at_ms, body
FROM history
WHERE @slice_range
ORDER BY part, instance_id, incarnation, execution, seq;
