-- Count a worker's leases on jobs with a session, by definition.
-- Params: worker_id; now_ms; until_ms; limit. Returns: one JSON text, [[kind, name, variant,
-- behaviour, leased], ...].
-- One index range per session of the worker's and activity; only activities have sessions.
SELECT json_group_array(json_array(kind, name, variant, behaviour, leased))
FROM (
    SELECT
        held.kind, held.name, held.variant, held.behaviour, count(*) AS leased
    FROM (
        SELECT definitions.*
        FROM sessions INDEXED BY sessions_by_owner
        CROSS JOIN definitions
        CROSS JOIN jobs INDEXED BY jobs_by_session
        WHERE sessions.owner = :worker_id
          AND definitions.kind = 'activity'
          AND jobs.queue_no = definitions.definition_no
          AND jobs.session = sessions.session
          AND jobs.session IS NOT NULL
          AND jobs.visible_at_ms > :now_ms
          AND jobs.visible_at_ms <= :until_ms
          AND jobs.token <> 0
          AND jobs.worker_id = :worker_id
        LIMIT :limit
    ) AS held
    GROUP BY held.definition_no
);
