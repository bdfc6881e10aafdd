-- Put jobs back into their queues after an attempt.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, visible_at_ms, attempt,
-- failures_begin, failures_length, details_begin, details_length], ...]; bodies. Returns: nothing.
-- ANY: see load_live.
UPDATE perdure.jobs
SET token = 0,
    worker_id = NULL,
    visible_at_ms = (requeued.value ->> 5)::bigint,
    attempt = (requeued.value ->> 6)::bigint,
    failures = substr(
        :bodies::bytea, (requeued.value ->> 7)::int, (requeued.value ->> 8)::int
    ),
    details = coalesce(
        substr(:bodies::bytea, (requeued.value ->> 9)::int, (requeued.value ->> 10)::int),
        jobs.details
    )
FROM jsonb_array_elements(:rows::jsonb) AS requeued (value)
WHERE jobs.part = ANY (ARRAY[(requeued.value ->> 0)::smallint])
  AND jobs.instance_id = requeued.value ->> 1
  AND jobs.incarnation = (requeued.value ->> 2)::bigint
  AND jobs.execution = (requeued.value ->> 3)::bigint
  AND jobs.seq = (requeued.value ->> 4)::bigint;
