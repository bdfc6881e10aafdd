-- Read the reports of all instances, for the checker.
-- Params: none. Returns: instance_id, version, updated_ms, value.
SELECT instance_id, version, updated_ms, value
FROM reports
ORDER BY instance_id;
