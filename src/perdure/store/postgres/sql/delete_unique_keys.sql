-- Free all business keys of instances.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
DELETE FROM perdure.unique_keys
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE unique_keys.instance_id = gone.value ->> 1;
