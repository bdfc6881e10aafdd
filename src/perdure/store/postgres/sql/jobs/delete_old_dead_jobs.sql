-- Remove jobs that were found to be dead for long, if they still are: a job may die again.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]; before_ms.
-- Returns: nothing.
DELETE FROM perdure.dead_jobs
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE dead_jobs.part = (gone.value ->> 0)::smallint
  AND dead_jobs.instance_id = gone.value ->> 1
  AND dead_jobs.incarnation = (gone.value ->> 2)::bigint
  AND dead_jobs.execution = (gone.value ->> 3)::bigint
  AND dead_jobs.seq = (gone.value ->> 4)::bigint
  AND dead_jobs.died_ms < :before_ms::bigint;
