-- Remove what instances kept under keys.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.kv
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE kv.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND kv.instance_id = gone.value ->> 1;
