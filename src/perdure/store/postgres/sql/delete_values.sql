-- Remove values that instances no longer keep.
-- Params: keys, JSON [[part, instance_id, key], ...]. Returns: nothing.
DELETE FROM perdure.kv
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE kv.part = (gone.value ->> 0)::smallint
  AND kv.instance_id = gone.value ->> 1
  AND kv.key = gone.value ->> 2;
