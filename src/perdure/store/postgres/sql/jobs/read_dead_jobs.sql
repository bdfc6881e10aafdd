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
FROM perdure.dead_jobs
JOIN perdure.definitions
    ON definitions.part = 0
   AND definitions.definition_no = dead_jobs.queue_no
WHERE (
    dead_jobs.part, dead_jobs.instance_id, dead_jobs.incarnation, dead_jobs.execution, dead_jobs.seq
) > (
    :part::smallint, :instance_id::text, :incarnation::bigint, :execution::bigint, :seq::bigint
)
ORDER BY
    dead_jobs.part, dead_jobs.instance_id, dead_jobs.incarnation, dead_jobs.execution, dead_jobs.seq
LIMIT :limit::bigint;
