-- Remove what instances sent to streams.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.perdure_streams
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE perdure_streams.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND perdure_streams.instance_id = gone.value ->> 1;
