-- Read business keys in order of their places, from behind one on.
-- Params: part, scope, key (the place); limit. Returns: part, scope, key, instance_id,
-- incarnation.
SELECT part, scope, key, instance_id, incarnation
FROM perdure.unique_keys
WHERE (part, scope, key) > (:part::smallint, :scope::text, :key::text)
ORDER BY part, scope, key
LIMIT :limit::bigint;
