-- Put dead jobs back into their queues as if they had never been tried, and mark them as such.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]; now_ms. Returns: the
-- keys of those that were put back, without the part.
-- One that is in its queue again stays as it is.
INSERT INTO jobs (
    part, instance_id, incarnation, execution, seq, queue_no, visible_at_ms, token, attempt, lost,
    created_ms, session, policy, input, rerun
)
SELECT
    dead_jobs.part, dead_jobs.instance_id, dead_jobs.incarnation, dead_jobs.execution,
    dead_jobs.seq, dead_jobs.queue_no, :now_ms, 0, 0, 0, dead_jobs.created_ms,
    dead_jobs.session, dead_jobs.policy, dead_jobs.input, 1
FROM (SELECT value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN dead_jobs
WHERE dead_jobs.part = wanted.value ->> 0
  AND dead_jobs.instance_id = wanted.value ->> 1
  AND dead_jobs.incarnation = wanted.value ->> 2
  AND dead_jobs.execution = wanted.value ->> 3
  AND dead_jobs.seq = wanted.value ->> 4
ON CONFLICT DO NOTHING
RETURNING instance_id, incarnation, execution, seq;
