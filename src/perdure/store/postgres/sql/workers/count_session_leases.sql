-- Count a worker's leases on jobs with a session, by definition.
-- Params: worker_id; now_ms; until_ms; limit. Returns: one JSON text, [[kind, name, variant,
-- behaviour, leased], ...].
-- One index range per session of the worker's and activity; only activities have sessions.
SELECT coalesce(
    json_agg(json_build_array(kind, name, variant, behaviour, leased)),
    '[]'::json
)
FROM (
    SELECT held.kind, held.name, held.variant, held.behaviour, count(*) AS leased
    FROM (
        SELECT definitions.*
        FROM perdure.sessions
        CROSS JOIN perdure.definitions
        CROSS JOIN LATERAL (
            SELECT 1
            FROM perdure.jobs
            WHERE jobs.queue_no = definitions.definition_no
              AND jobs.session = sessions.session
              AND jobs.visible_at_ms > :now_ms::bigint
              AND jobs.visible_at_ms <= :until_ms::bigint
              AND jobs.token <> 0
              AND jobs.worker_id = :worker_id::text
        ) AS leased
        WHERE sessions.owner = :worker_id::text
          AND definitions.kind = 'activity'
        LIMIT :limit::bigint
    ) AS held
    GROUP BY held.kind, held.name, held.variant, held.behaviour
) AS counted;
