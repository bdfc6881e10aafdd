-- Remove dead jobs.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: the keys of
-- those that were there, without the part.
DELETE FROM perdure.dead_jobs
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE dead_jobs.part = (gone.value ->> 0)::smallint
  AND dead_jobs.instance_id = gone.value ->> 1
  AND dead_jobs.incarnation = (gone.value ->> 2)::bigint
  AND dead_jobs.execution = (gone.value ->> 3)::bigint
  AND dead_jobs.seq = (gone.value ->> 4)::bigint
RETURNING dead_jobs.instance_id, dead_jobs.incarnation, dead_jobs.execution, dead_jobs.seq;
