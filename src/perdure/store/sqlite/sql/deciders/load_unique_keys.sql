-- Tell which instances have business keys.
-- Params: keys, JSON [[part, scope, key], ...]. Returns: one JSON text, [[index of the key,
-- instance_id], ...].
SELECT json_group_array(json_array(wanted.key, unique_keys.instance_id))
FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN unique_keys
WHERE unique_keys.part = wanted.value ->> 0
  AND unique_keys.scope = wanted.value ->> 1
  AND unique_keys.key = wanted.value ->> 2;
