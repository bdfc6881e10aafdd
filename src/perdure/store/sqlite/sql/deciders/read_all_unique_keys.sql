-- Read all business keys, for the checker.
-- Params: none. Returns: scope, key, instance_id, incarnation.
SELECT scope, key, instance_id, incarnation
FROM unique_keys
ORDER BY scope, key;
