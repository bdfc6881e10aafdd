-- End the leases of a dead worker on jobs, as if they had run out now: the next claim counts them
-- as lost.
-- Params: worker_id; now_ms; until_ms. Returns: nothing.
-- As in end_turn_leases, one index range per queue; of jobs with a session, one per session of the
-- worker's, which activities alone have. A job whose session has gone to another worker meanwhile
-- waits for its lease.
-- ANY: see load_live.
WITH plain AS MATERIALIZED (
    SELECT leased.*
    FROM perdure.definitions
    CROSS JOIN LATERAL (
        SELECT jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq
        FROM perdure.jobs
        WHERE jobs.queue_no = definitions.definition_no
          AND jobs.session IS NULL
          AND jobs.visible_at_ms > :now_ms::bigint
          AND jobs.visible_at_ms <= :until_ms::bigint
          AND jobs.token <> 0
          AND jobs.worker_id = :worker_id::text
        FOR UPDATE OF jobs SKIP LOCKED
    ) AS leased
), bound AS MATERIALIZED (
    SELECT leased.*
    FROM perdure.sessions
    CROSS JOIN perdure.definitions
    CROSS JOIN LATERAL (
        SELECT jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq
        FROM perdure.jobs
        WHERE jobs.queue_no = definitions.definition_no
          AND jobs.session = sessions.session
          AND jobs.visible_at_ms > :now_ms::bigint
          AND jobs.visible_at_ms <= :until_ms::bigint
          AND jobs.token <> 0
          AND jobs.worker_id = :worker_id::text
        FOR UPDATE OF jobs SKIP LOCKED
    ) AS leased
    WHERE sessions.owner = :worker_id::text
      AND definitions.kind = 'activity'
)
UPDATE perdure.jobs
SET visible_at_ms = :now_ms::bigint
FROM (SELECT * FROM plain UNION ALL SELECT * FROM bound) AS held
WHERE jobs.part = ANY (ARRAY[held.part])
  AND jobs.instance_id = held.instance_id
  AND jobs.incarnation = held.incarnation
  AND jobs.execution = held.execution
  AND jobs.seq = held.seq;
