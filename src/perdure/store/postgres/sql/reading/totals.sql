-- Count everything.
-- Params: none. Returns: instances; a JSON object with how many there are of each status except
-- running and completed; born and unborn live rows; executions and events; messages with timers;
-- timers; jobs; dead jobs; events in the feed, those without a position too.
-- Only what is narrow is read. How many run and completed follows: who has a live row and is not
-- held runs, and the rest completed. A history begins with event 1.
SELECT
    (SELECT count(*) FROM perdure.instances),
    (
        SELECT coalesce(json_object_agg(troubled.status, troubled.many), '{}'::json)
        FROM (
            SELECT status, count(*) AS many
            FROM perdure.instances
            WHERE status NOT IN ('running', 'completed')
            GROUP BY status
        ) AS troubled
    ),
    alive.born,
    alive.unborn,
    recorded.executions,
    recorded.events,
    waiting.messages,
    waiting.timers,
    (SELECT count(*) FROM perdure.jobs),
    (SELECT count(*) FROM perdure.dead_jobs),
    (SELECT count(*) FROM perdure.feed) + (SELECT count(*) FROM perdure.feed_new)
FROM (
    SELECT
        count(definition_no) AS born,
        count(*) - count(definition_no) AS unborn
    FROM perdure.live
) AS alive
CROSS JOIN (
    SELECT
        count(*) FILTER (WHERE seq = 1) AS executions,
        count(*) AS events
    FROM perdure.history
) AS recorded
CROSS JOIN (
    SELECT
        count(*) AS messages,
        count(timer_key) AS timers
    FROM perdure.inbox
) AS waiting;
