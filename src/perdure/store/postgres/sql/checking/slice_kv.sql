-- Read what a range of ids keeps under keys.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, key, updated_ms, value.
SELECT instance_id, key, updated_ms, value
FROM perdure.kv
WHERE @slice_range
ORDER BY part, instance_id, key;
