-- Read the open jobs of an instance.
-- Params: part; instance_id. Returns: incarnation, execution, seq, the queue's definition,
-- visible_at_ms, token, worker_id, attempt, created_ms, session, start_by_ms, failures, rerun.
SELECT
    jobs.incarnation,
    jobs.execution,
    jobs.seq,
    definitions.kind,
    definitions.name,
    definitions.variant,
    definitions.behaviour,
    jobs.visible_at_ms,
    jobs.token,
    jobs.worker_id,
    jobs.attempt,
    jobs.created_ms,
    jobs.session,
    jobs.start_by_ms,
    jobs.failures,
    jobs.rerun
FROM jobs
CROSS JOIN definitions
WHERE jobs.part = :part
  AND jobs.instance_id = :instance_id
  AND definitions.definition_no = jobs.queue_no
ORDER BY jobs.incarnation, jobs.execution, jobs.seq;
