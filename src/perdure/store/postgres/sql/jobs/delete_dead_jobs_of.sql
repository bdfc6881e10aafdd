-- Remove the dead jobs of instances that are deleted or replaced.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.dead_jobs
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE dead_jobs.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND dead_jobs.instance_id = gone.value ->> 1;
