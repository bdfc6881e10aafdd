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
FROM perdure.jobs
JOIN perdure.definitions
    ON definitions.part = 0
   AND definitions.definition_no = jobs.queue_no
WHERE jobs.part = :part::smallint
  AND jobs.instance_id = :instance_id::text
ORDER BY jobs.incarnation, jobs.execution, jobs.seq;
