-- Read what an instance keeps under its keys, or under one of them.
-- Params: part; instance_id; key, or NULL. Returns: key, value, updated_ms, in order of the keys.
SELECT key, value, updated_ms
FROM perdure.kv
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND (:key::text IS NULL OR key = :key::text)
ORDER BY key;
