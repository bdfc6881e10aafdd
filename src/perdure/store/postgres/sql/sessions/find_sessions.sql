-- Find the sessions of these queues that have jobs, and since when the first one waits.
-- Params: queues, JSON [definition_no, ...]; after (a session to begin behind); max_sessions;
-- now_ms. Returns: one JSON text, [[queue_no, session, visible_at_ms or NULL], ...]; NULL says that
-- all its jobs are running or wait for their time. A session NULL ends its queue.
-- Goes from session to session by the index: a backlog costs as much as a single job. The limit
-- outside ends the recursion, because rows are made only as they are asked for.
WITH RECURSIVE heads (queue_no, session) AS (
    SELECT (wanted.value #>> '{}'::text[])::bigint, (
        SELECT jobs.session
        FROM perdure.jobs
        WHERE jobs.queue_no = (wanted.value #>> '{}'::text[])::bigint
          AND jobs.session > :after::text
        ORDER BY jobs.session
        LIMIT 1
    )
    FROM jsonb_array_elements(:queues::jsonb) AS wanted (value)
    UNION ALL
    SELECT heads.queue_no, (
        SELECT jobs.session
        FROM perdure.jobs
        WHERE jobs.queue_no = heads.queue_no
          AND jobs.session > heads.session
        ORDER BY jobs.session
        LIMIT 1
    )
    FROM heads
    WHERE heads.session IS NOT NULL
)
SELECT coalesce(json_agg(json_build_array(looked_at.queue_no, looked_at.session, (
    SELECT jobs.visible_at_ms
    FROM perdure.jobs
    WHERE jobs.queue_no = looked_at.queue_no
      AND jobs.session = looked_at.session
      AND jobs.visible_at_ms <= :now_ms::bigint
    ORDER BY jobs.visible_at_ms
    LIMIT 1
)) ORDER BY looked_at.session), '[]'::json)
FROM (
    SELECT heads.queue_no, heads.session
    FROM heads
    LIMIT :max_sessions::bigint
) AS looked_at;
