-- Remove what instances kept under keys.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
DELETE FROM perdure.kv
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE kv.part = (gone.value ->> 0)::smallint
  AND kv.instance_id = gone.value ->> 1;
