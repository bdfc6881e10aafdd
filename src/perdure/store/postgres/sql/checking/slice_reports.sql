-- Read the reports of a range of ids.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, version, updated_ms, value.
SELECT instance_id, version, updated_ms, value
FROM perdure.reports
WHERE @slice_range
ORDER BY part, instance_id;
