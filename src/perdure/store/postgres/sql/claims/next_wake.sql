-- Return when the next turn or job of these becomes claimable; 0 if messages are on their way that
-- a user's transaction has sent.
-- Params: definitions, JSON [definition_no, ...]; queues, JSON [definition_no, ...]; now_ms;
-- max_sessions. Returns: one time, or NULL for never.
-- Jobs with a session count only while their time lies ahead: what waits already belongs to another
-- worker (or there was no room for it), and would hide when the rest becomes due.
WITH RECURSIVE heads (queue_no, session) AS (
    SELECT (wanted.value #>> '{}'::text[])::bigint, (
        SELECT jobs.session
        FROM perdure.jobs
        WHERE jobs.queue_no = (wanted.value #>> '{}'::text[])::bigint
          AND jobs.session IS NOT NULL
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
SELECT min(at_ms)
FROM (
    SELECT (
        SELECT live.wake_at_ms
        FROM perdure.live
        WHERE live.definition_no = (wanted.value #>> '{}'::text[])::bigint
          AND live.wake_at_ms IS NOT NULL
        ORDER BY live.wake_at_ms
        LIMIT 1
    ) AS at_ms
    FROM jsonb_array_elements(:definitions::jsonb) AS wanted (value)
    UNION ALL
    SELECT (
        SELECT jobs.visible_at_ms
        FROM perdure.jobs
        WHERE jobs.queue_no = (wanted.value #>> '{}'::text[])::bigint
          AND jobs.session IS NULL
        ORDER BY jobs.visible_at_ms
        LIMIT 1
    ) AS at_ms
    FROM jsonb_array_elements(:queues::jsonb) AS wanted (value)
    UNION ALL
    SELECT (
        SELECT jobs.visible_at_ms
        FROM perdure.jobs
        WHERE jobs.queue_no = looked_at.queue_no
          AND jobs.session = looked_at.session
          AND jobs.visible_at_ms > :now_ms::bigint
        ORDER BY jobs.visible_at_ms
        LIMIT 1
    ) AS at_ms
    FROM (
        SELECT heads.queue_no, heads.session
        FROM heads
        LIMIT :max_sessions::bigint
    ) AS looked_at
    UNION ALL
    SELECT 0 AS at_ms
    WHERE EXISTS (SELECT FROM perdure.arrivals)
) AS times;
