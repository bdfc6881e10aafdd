-- Remove values that instances no longer keep.
-- Params: keys, JSON [[part, instance_id, key], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.kv
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE kv.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND kv.instance_id = gone.value ->> 1
  AND kv.key = gone.value ->> 2;
