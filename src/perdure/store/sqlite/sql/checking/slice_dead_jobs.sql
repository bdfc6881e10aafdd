-- Read the keys of the dead jobs of a range of ids.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, incarnation, execution, seq.
SELECT instance_id, incarnation, execution, seq
FROM dead_jobs
WHERE @slice_range
ORDER BY part, instance_id, incarnation, execution, seq;
