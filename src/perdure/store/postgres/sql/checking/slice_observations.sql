-- Read the numbers of the observed inputs of a range of ids.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, no.
SELECT instance_id, no
FROM perdure.observations
WHERE @slice_range
ORDER BY part, instance_id, no;
