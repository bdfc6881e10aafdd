-- Read what all instances keep under keys, for the checker.
-- Params: none. Returns: instance_id, key, updated_ms, value.
SELECT instance_id, key, updated_ms, value
FROM perdure.kv
ORDER BY instance_id, key;
