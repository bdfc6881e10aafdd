-- Find sessions that are not as they must be: used after their lease, or run by several workers.
-- Params: now_ms. Returns: one JSON text, [[session, workers], ...], in any order; 0 workers: used
-- after its lease.
SELECT coalesce(json_agg(json_build_array(torn.session, torn.workers)), '[]'::json)
FROM (
    SELECT session, 0 AS workers
    FROM perdure.sessions
    WHERE used_ms > until_ms
    UNION ALL
    SELECT session, count(DISTINCT coalesce(worker_id, ''))
    FROM perdure.jobs
    WHERE session IS NOT NULL
      AND token <> 0
      AND visible_at_ms > :now_ms::bigint
    GROUP BY queue_no, session
    HAVING count(DISTINCT coalesce(worker_id, '')) > 1
) AS torn;
