-- Count the leases on turns, and on jobs without a session, by definition and worker.
-- Params: now_ms; until_ms; limit.
-- Returns: one JSON text, for each definition [kind, name, variant, behaviour, [[worker_id, leased,
-- looked_at], ...]].
-- The home of a leased instance is who holds the lease: see lease_turns. One index range per
-- definition: no lease ends later than until_ms. Timers that are due before then are looked at too,
-- so there is a limit. In order of the index, so that it is used.
SELECT coalesce(
    json_agg(json_build_array(
        definitions.kind, definitions.name, definitions.variant, definitions.behaviour, held.rows
    )),
    '[]'::json
)
FROM perdure.definitions
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(counted.worker_id, counted.leased, counted.looked_at)) AS rows
    FROM (
        SELECT
            near.worker_id,
            count(*) FILTER (WHERE near.is_leased) AS leased,
            count(*) AS looked_at
        FROM (
            (
                SELECT live.home AS worker_id, live.lease <> 0 AS is_leased
                FROM perdure.live
                WHERE live.definition_no = definitions.definition_no
                  AND live.wake_at_ms > :now_ms::bigint
                  AND live.wake_at_ms <= :until_ms::bigint
                ORDER BY live.wake_at_ms
                LIMIT :limit::bigint
            )
            UNION ALL
            (
                SELECT jobs.worker_id, jobs.token <> 0
                FROM perdure.jobs
                WHERE jobs.queue_no = definitions.definition_no
                  AND jobs.session IS NULL
                  AND jobs.visible_at_ms > :now_ms::bigint
                  AND jobs.visible_at_ms <= :until_ms::bigint
                ORDER BY jobs.visible_at_ms
                LIMIT :limit::bigint
            )
        ) AS near
        GROUP BY near.worker_id
    ) AS counted
) AS held
WHERE held.rows IS NOT NULL;
