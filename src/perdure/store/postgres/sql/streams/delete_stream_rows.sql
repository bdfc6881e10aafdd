-- Remove rows of streams that count no more.
-- Params: keys, JSON [[part, instance_id, stream, last_index], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.perdure_streams
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE perdure_streams.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND perdure_streams.instance_id = gone.value ->> 1
  AND perdure_streams.stream = gone.value ->> 2
  AND perdure_streams.last_index = (gone.value ->> 3)::bigint;
