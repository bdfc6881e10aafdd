-- Note that jobs have started, so that nothing limits when they do.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: nothing.
-- ANY: see load_live.
UPDATE perdure.jobs
SET start_by_ms = NULL
FROM jsonb_array_elements(:keys::jsonb) AS started (value)
WHERE jobs.part = ANY (ARRAY[(started.value ->> 0)::smallint])
  AND jobs.instance_id = started.value ->> 1
  AND jobs.incarnation = (started.value ->> 2)::bigint
  AND jobs.execution = (started.value ->> 3)::bigint
  AND jobs.seq = (started.value ->> 4)::bigint;
