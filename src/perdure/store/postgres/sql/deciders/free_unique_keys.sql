-- Free the business keys that instances have in a scope.
-- Params: keys, JSON [[instance_id, scope], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.unique_keys
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE unique_keys.instance_id = ANY (ARRAY[gone.value ->> 0])
  AND unique_keys.scope = gone.value ->> 1;
