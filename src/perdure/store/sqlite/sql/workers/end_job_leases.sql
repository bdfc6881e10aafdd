-- End the leases of a dead worker on jobs, as if they had run out now: the next claim counts them
-- as lost.
-- Params: worker_id; now_ms; until_ms. Returns: nothing.
-- As in end_turn_leases, one index range per queue; of jobs with a session, one per session of the
-- worker's, which activities alone have. A job whose session has gone to another worker meanwhile
-- waits for its lease.
UPDATE jobs
SET visible_at_ms = :now_ms
FROM (
    SELECT value FROM json_each((
        SELECT json_group_array(json_array(part, instance_id, incarnation, execution, seq))
        FROM (
            SELECT leased.part, leased.instance_id, leased.incarnation, leased.execution, leased.seq
            FROM definitions
            CROSS JOIN jobs AS leased INDEXED BY jobs_by_time
            WHERE leased.queue_no = definitions.definition_no
              AND leased.session IS NULL
              AND leased.visible_at_ms > :now_ms
              AND leased.visible_at_ms <= :until_ms
              AND leased.token <> 0
              AND leased.worker_id = :worker_id
            UNION ALL
            SELECT leased.part, leased.instance_id, leased.incarnation, leased.execution, leased.seq
            FROM sessions INDEXED BY sessions_by_owner
            CROSS JOIN definitions
            CROSS JOIN jobs AS leased INDEXED BY jobs_by_session
            WHERE sessions.owner = :worker_id
              AND definitions.kind = 'activity'
              AND leased.queue_no = definitions.definition_no
              AND leased.session = sessions.session
              AND leased.session IS NOT NULL
              AND leased.visible_at_ms > :now_ms
              AND leased.visible_at_ms <= :until_ms
              AND leased.token <> 0
              AND leased.worker_id = :worker_id
        )
    )) LIMIT -1
) AS held
WHERE jobs.part = held.value ->> 0
  AND jobs.instance_id = held.value ->> 1
  AND jobs.incarnation = held.value ->> 2
  AND jobs.execution = held.value ->> 3
  AND jobs.seq = held.value ->> 4;
