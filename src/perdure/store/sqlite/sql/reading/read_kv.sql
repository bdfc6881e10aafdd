-- Read what an instance keeps under its keys, or under one of them.
-- Params: part; instance_id; key, or NULL. Returns: key, value, updated_ms, in order of the keys.
SELECT key, value, updated_ms
FROM kv
WHERE part = :part
  AND instance_id = :instance_id
  AND (:key IS NULL OR key = :key)
ORDER BY key;
