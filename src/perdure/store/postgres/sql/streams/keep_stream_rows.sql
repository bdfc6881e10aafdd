-- Let what an attempt sent to a stream count for good, since it has succeeded.
-- Params: keys, JSON [[part, instance_id, token, execution, seq], ...]. Returns: nothing.
-- Jobs that were claimed together have one token, so it is asked for the job as well.
-- ANY: see load_live.
UPDATE perdure.perdure_streams
SET token = 0
FROM jsonb_array_elements(:keys::jsonb) AS kept (value)
JOIN perdure.perdure_stream_heads AS heads
    ON heads.part = ANY (ARRAY[(kept.value ->> 0)::smallint])
   AND heads.instance_id = kept.value ->> 1
WHERE perdure_streams.part = ANY (ARRAY[(kept.value ->> 0)::smallint])
  AND perdure_streams.instance_id = kept.value ->> 1
  AND perdure_streams.stream = heads.stream
  AND perdure_streams.token = (kept.value ->> 2)::bigint
  AND perdure_streams.execution = (kept.value ->> 3)::bigint
  AND perdure_streams.seq = (kept.value ->> 4)::bigint
  AND perdure_streams.token <> 0;
