-- Free all business keys of instances.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.unique_keys
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE unique_keys.instance_id = ANY (ARRAY[gone.value ->> 1]);
