-- Read the open jobs of a range of ids.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id and the columns of read_jobs.
-- ANY keeps definitions inside: see read_instances.
SELECT
    jobs.instance_id,
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
FROM (
    SELECT *
    FROM perdure.jobs
    WHERE @slice_range
) AS jobs
JOIN perdure.definitions
    ON definitions.part = 0
   AND definitions.definition_no = ANY (ARRAY[jobs.queue_no])
ORDER BY jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq;
