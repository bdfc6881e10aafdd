-- Find sessions that are not as they must be: used after their lease, or run by several workers.
-- Params: now_ms. Returns: one JSON text, [[session, workers], ...], in any order; 0 workers: used
-- after its lease.
SELECT json_group_array(json_array(torn.session, torn.workers))
FROM (
    SELECT session, 0 AS workers
    FROM sessions
    WHERE used_ms > until_ms
    UNION ALL
    SELECT session, count(DISTINCT coalesce(worker_id, ''))
    FROM jobs INDEXED BY jobs_by_session
    WHERE session IS NOT NULL
      AND token <> 0
      AND visible_at_ms > :now_ms
    GROUP BY queue_no, session
    HAVING count(DISTINCT coalesce(worker_id, '')) > 1
) AS torn;
