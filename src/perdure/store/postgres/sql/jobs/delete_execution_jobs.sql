-- Remove the jobs of executions that were followed by the next one.
-- Params: keys, JSON [[part, instance_id, incarnation, execution], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.jobs
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE jobs.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND jobs.instance_id = gone.value ->> 1
  AND jobs.incarnation = (gone.value ->> 2)::bigint
  AND jobs.execution = (gone.value ->> 3)::bigint;
