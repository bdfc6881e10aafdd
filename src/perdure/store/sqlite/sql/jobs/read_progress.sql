-- Read how far the running jobs of an instance are.
-- Params: part; instance_id. Returns: incarnation, execution, seq, the queue's definition, attempt,
-- worker_id, progress, beat_ms.
SELECT
    jobs.incarnation,
    jobs.execution,
    jobs.seq,
    definitions.kind,
    definitions.name,
    definitions.variant,
    definitions.behaviour,
    jobs.attempt,
    jobs.worker_id,
    jobs.progress,
    jobs.beat_ms
FROM jobs
CROSS JOIN definitions
WHERE jobs.part = :part
  AND jobs.instance_id = :instance_id
  AND jobs.token <> 0
  AND definitions.definition_no = jobs.queue_no
ORDER BY jobs.incarnation, jobs.execution, jobs.seq;
