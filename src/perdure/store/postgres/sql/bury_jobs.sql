-- Keep jobs that are dead, before they are removed from their queues.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, begin and length of the
-- failures], ...]; bodies; now_ms. Returns: nothing.
-- ON CONFLICT: a job that was put back and died again takes its own place. Only who has the job
-- locked buries it.
-- ANY: see load_live.
INSERT INTO perdure.dead_jobs (
    part, instance_id, incarnation, execution, seq, queue_no, attempt, lost, priority, created_ms,
    died_ms, session, failures, policy, input
)
SELECT
    jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq, jobs.queue_no,
    jobs.attempt, jobs.lost, jobs.priority, jobs.created_ms, :now_ms::bigint, jobs.session,
    substr(:bodies::bytea, (dead.value ->> 5)::int, (dead.value ->> 6)::int), jobs.policy,
    jobs.input
FROM jsonb_array_elements(:rows::jsonb) AS dead (value)
JOIN perdure.jobs
    ON jobs.part = ANY (ARRAY[(dead.value ->> 0)::smallint])
   AND jobs.instance_id = dead.value ->> 1
   AND jobs.incarnation = (dead.value ->> 2)::bigint
   AND jobs.execution = (dead.value ->> 3)::bigint
   AND jobs.seq = (dead.value ->> 4)::bigint
ON CONFLICT (part, instance_id, incarnation, execution, seq) DO UPDATE SET
    queue_no = excluded.queue_no,
    attempt = excluded.attempt,
    lost = excluded.lost,
    priority = excluded.priority,
    created_ms = excluded.created_ms,
    died_ms = excluded.died_ms,
    session = excluded.session,
    failures = excluded.failures,
    policy = excluded.policy,
    input = excluded.input;
