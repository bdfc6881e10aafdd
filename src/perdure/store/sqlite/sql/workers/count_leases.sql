-- Count the leases on turns, and on jobs without a session, by definition and worker.
-- Params: now_ms; until_ms; limit.
-- Returns: one JSON text, for each definition [kind, name, variant, behaviour, [[worker_id, leased,
-- looked_at], ...]].
-- The home of a leased instance is who holds the lease: see lease_turns. One index range per
-- definition: no lease ends later than until_ms. Timers that are due before then are looked at too,
-- so there is a limit.
SELECT json_group_array(json_array(
    definitions.kind, definitions.name, definitions.variant, definitions.behaviour,
    json((
        SELECT json_group_array(json_array(held.worker_id, held.leased, held.looked_at))
        FROM (
            SELECT near.worker_id, sum(near.is_leased) AS leased, count(*) AS looked_at
            FROM (
                SELECT *
                FROM (
                    SELECT live.home AS worker_id, live.lease <> 0 AS is_leased
                    FROM live INDEXED BY live_by_wake
                    WHERE live.definition_no = definitions.definition_no
                      AND live.wake_at_ms > :now_ms
                      AND live.wake_at_ms <= :until_ms
                    LIMIT :limit
                )
                UNION ALL
                SELECT *
                FROM (
                    SELECT jobs.worker_id, jobs.token <> 0
                    FROM jobs INDEXED BY jobs_by_time
                    WHERE jobs.queue_no = definitions.definition_no
                      AND jobs.session IS NULL
                      AND jobs.visible_at_ms > :now_ms
                      AND jobs.visible_at_ms <= :until_ms
                    LIMIT :limit
                )
            ) AS near
            GROUP BY near.worker_id
        ) AS held
    ))
))
FROM definitions;
