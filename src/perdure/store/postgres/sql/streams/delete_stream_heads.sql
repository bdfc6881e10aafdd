-- Remove the streams of instances, before what was sent to them: see lock_stream_heads.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.perdure_stream_heads
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE perdure_stream_heads.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND perdure_stream_heads.instance_id = gone.value ->> 1;
