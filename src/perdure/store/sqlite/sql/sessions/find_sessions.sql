-- Find the sessions of these queues that have jobs, and since when the first one waits.
-- Params: queues, JSON [definition_no, ...]; after (a session to begin behind); max_sessions;
-- now_ms. Returns: one JSON text, [[queue_no, session, visible_at_ms or NULL], ...]; NULL says that
-- all its jobs are running or wait for their time. A session NULL ends its queue.
-- Goes from session to session by the index: a backlog costs as much as a single job.
WITH RECURSIVE heads (queue_no, session) AS (
    SELECT wanted.value, (
        SELECT min(jobs.session)
        FROM jobs INDEXED BY jobs_by_session
        WHERE jobs.queue_no = wanted.value
          AND jobs.session > :after
          AND jobs.session IS NOT NULL
    )
    FROM json_each(:queues) AS wanted
    UNION ALL
    SELECT heads.queue_no, (
        SELECT min(jobs.session)
        FROM jobs INDEXED BY jobs_by_session
        WHERE jobs.queue_no = heads.queue_no
          AND jobs.session > heads.session
          AND jobs.session IS NOT NULL
    )
    FROM heads
    WHERE heads.session IS NOT NULL
    LIMIT :max_sessions
)
SELECT json_group_array(json_array(heads.queue_no, heads.session, (
    SELECT min(jobs.visible_at_ms)
    FROM jobs INDEXED BY jobs_by_session
    WHERE jobs.queue_no = heads.queue_no
      AND jobs.session = heads.session
      AND jobs.session IS NOT NULL
      AND jobs.visible_at_ms <= :now_ms
)))
FROM heads;
