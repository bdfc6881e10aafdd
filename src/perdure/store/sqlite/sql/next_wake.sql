-- Return when the next turn or job of these becomes claimable.
-- Params: definitions, JSON [definition_no, ...]; queues, JSON [definition_no, ...]. Returns: one
-- time, or NULL for never.
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
    ) AS at_ms
    FROM json_each(:queues) AS wanted
);
