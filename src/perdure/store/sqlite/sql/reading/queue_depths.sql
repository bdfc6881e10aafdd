-- Tell what waits, by definition: turns of orchestrations and jobs of activities.
-- Params: now_ms. Returns: one JSON text, [[kind, name, variant, behaviour, ready, later, leased,
-- oldest_ready_ms], ...], in any order.
-- What waits without a time (for a message, for other code) is in no index and does not count. A
-- lease that ran out is ready.
SELECT json_group_array(json_array(
    kind, name, variant, behaviour, ready, later, leased, oldest_ready_ms
))
FROM (
    SELECT
        definitions.kind,
        definitions.name,
        definitions.variant,
        definitions.behaviour,
        sum(waiting.at_ms <= :now_ms) AS ready,
        sum(waiting.at_ms > :now_ms AND NOT waiting.is_leased) AS later,
        sum(waiting.at_ms > :now_ms AND waiting.is_leased) AS leased,
        min(iif(waiting.at_ms <= :now_ms, waiting.at_ms, NULL)) AS oldest_ready_ms
    FROM (
        SELECT live.definition_no, live.wake_at_ms AS at_ms, live.lease <> 0 AS is_leased
        FROM definitions AS served
        CROSS JOIN live INDEXED BY live_by_wake
        WHERE live.definition_no = served.definition_no
          AND live.wake_at_ms IS NOT NULL
        UNION ALL
        SELECT jobs.queue_no, jobs.visible_at_ms, jobs.token <> 0
        FROM definitions AS served
        CROSS JOIN jobs INDEXED BY jobs_by_time
        WHERE jobs.queue_no = served.definition_no
          AND jobs.session IS NULL
        UNION ALL
        SELECT jobs.queue_no, jobs.visible_at_ms, jobs.token <> 0
        FROM definitions AS served
        CROSS JOIN jobs INDEXED BY jobs_by_session
        WHERE jobs.queue_no = served.definition_no
          AND jobs.session IS NOT NULL
    ) AS waiting
    CROSS JOIN definitions
    WHERE definitions.definition_no = waiting.definition_no
    GROUP BY definitions.definition_no
);
