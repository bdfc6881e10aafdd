-- Count everything.
-- Params: none. Returns: instances; a JSON object with how many there are of each status except
-- running and completed; born and unborn live rows; executions and events; messages with timers;
-- timers; jobs; dead jobs; events in the feed.
-- Only what is narrow is read. How many run and completed follows: who has a live row and is not
-- held runs, and the rest completed. A history begins with event 1.
SELECT
    (SELECT count(*) FROM instances),
    (
        SELECT json_group_object(status, many)
        FROM (
            SELECT status, count(*) AS many
            FROM instances INDEXED BY instances_by_trouble
            WHERE status NOT IN ('running', 'completed')
            GROUP BY status
        )
    ),
    alive.born,
    alive.unborn,
    recorded.executions,
    recorded.events,
    (SELECT count(*) FROM inbox),
    (SELECT count(*) FROM inbox INDEXED BY inbox_by_timer WHERE timer_key IS NOT NULL),
    (SELECT count(*) FROM jobs),
    (SELECT count(*) FROM dead_jobs),
    (SELECT count(*) FROM feed)
FROM (
    SELECT
        count(definition_no) AS born,
        count(*) - count(definition_no) AS unborn
    FROM live
) AS alive
CROSS JOIN (
    SELECT
        count(*) FILTER (WHERE seq = 1) AS executions,
        count(*) AS events
    FROM history
) AS recorded;
