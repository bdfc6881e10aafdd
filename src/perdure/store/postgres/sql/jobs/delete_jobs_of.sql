-- Remove all jobs of instances that ended or are replaced.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.jobs
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE jobs.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND jobs.instance_id = gone.value ->> 1;
