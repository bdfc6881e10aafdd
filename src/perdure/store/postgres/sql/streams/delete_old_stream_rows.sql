-- Remove rows of streams that were found to be old, if their instance still has ended before then.
-- Params: keys, JSON [[part, instance_id, stream, last_index], ...]; before_ms. Returns: nothing.
-- Heads stay: an index is never given twice, also if the instance is reset.
-- ANY: see load_live.
DELETE FROM perdure.perdure_streams
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE perdure_streams.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND perdure_streams.instance_id = gone.value ->> 1
  AND perdure_streams.stream = gone.value ->> 2
  AND perdure_streams.last_index = (gone.value ->> 3)::bigint
  AND EXISTS (
      SELECT 1
      FROM perdure.instances
      WHERE instances.part = perdure_streams.part
        AND instances.instance_id = perdure_streams.instance_id
        AND instances.ended_ms < :before_ms::bigint
        AND instances.created_ms < :before_ms::bigint
  );
