-- Return when the next turn or job of these becomes claimable.
-- Params: definitions, JSON [definition_no, ...]; queues, JSON [definition_no, ...]; now_ms;
-- max_sessions. Returns: one time, or NULL for never.
-- Jobs with a session count only while their time lies ahead: what waits already belongs to another
-- worker (or there was no room for it), and would hide when the rest becomes due.
WITH RECURSIVE heads (queue_no, session) AS (
    SELECT wanted.value, (
        SELECT min(jobs.session)
        FROM jobs INDEXED BY jobs_by_session
        WHERE jobs.queue_no = wanted.value
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
SELECT min(at_ms)
FROM (
    SELECT (
        SELECT min(live.wake_at_ms)
        FROM live INDEXED BY live_by_wake
        WHERE live.definition_no = wanted.value
          AND live.wake_at_ms IS NOT NULL
    ) AS at_ms
    FROM json_each(:definitions) AS wanted
    UNION ALL
    SELECT (
        SELECT min(jobs.visible_at_ms)
        FROM jobs INDEXED BY jobs_by_time
        WHERE jobs.queue_no = wanted.value
          AND jobs.session IS NULL
    ) AS at_ms
    FROM json_each(:queues) AS wanted
    UNION ALL
    SELECT (
        SELECT min(jobs.visible_at_ms)
        FROM jobs INDEXED BY jobs_by_session
        WHERE jobs.queue_no = heads.queue_no
          AND jobs.session = heads.session
          AND jobs.session IS NOT NULL
          AND jobs.visible_at_ms > :now_ms
    ) AS at_ms
    FROM heads
);
