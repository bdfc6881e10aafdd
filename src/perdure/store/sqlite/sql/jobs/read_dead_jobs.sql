-- Read dead jobs in order of their keys, from behind one on.
-- Params: part; instance_id; incarnation; execution; seq; limit. Returns: instance_id, incarnation,
-- execution, seq, the queue's definition, attempt, lost, created_ms, died_ms, failures, policy,
-- input.
SELECT
    dead_jobs.instance_id,
    dead_jobs.incarnation,
    dead_jobs.execution,
    dead_jobs.seq,
    definitions.kind,
    definitions.name,
    definitions.variant,
    definitions.behaviour,
    dead_jobs.attempt,
    dead_jobs.lost,
    dead_jobs.created_ms,
    dead_jobs.died_ms,
    dead_jobs.failures,
    dead_jobs.policy,
    dead_jobs.input
FROM dead_jobs
CROSS JOIN definitions
WHERE (
    dead_jobs.part, dead_jobs.instance_id, dead_jobs.incarnation, dead_jobs.execution, dead_jobs.seq
) > (:part, :instance_id, :incarnation, :execution, :seq)
  AND definitions.definition_no = dead_jobs.queue_no
ORDER BY
    dead_jobs.part, dead_jobs.instance_id, dead_jobs.incarnation, dead_jobs.execution, dead_jobs.seq
LIMIT :limit;
