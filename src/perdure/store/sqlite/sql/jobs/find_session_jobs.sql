-- Find jobs of sessions that wait or whose lease ran out, longest waiting first.
-- Params: sessions, JSON [[queue_no, session, whether it is ours, losses_below], ...]; worker_id;
-- now_ms; limit (per session). Returns: one JSON text, for each session [[part, instance_id,
-- incarnation, execution, seq, visible_at_ms, losses, session], ...]. Losses: see find_jobs.
-- A session that is not ours yet has nothing for us as long as another worker runs a job of it.
SELECT json_group_array(json((
    SELECT json_group_array(json_array(
        part, instance_id, incarnation, execution, seq, visible_at_ms, losses, session
    ))
    FROM (
        SELECT
            jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq,
            jobs.visible_at_ms, jobs.lost + (jobs.token <> 0) AS losses, jobs.session
        FROM jobs INDEXED BY jobs_by_session
        WHERE jobs.queue_no = wanted.value ->> 0
          AND jobs.session = wanted.value ->> 1
          AND jobs.session IS NOT NULL
          AND jobs.visible_at_ms <= :now_ms
          AND jobs.lost + (jobs.token <> 0) < wanted.value ->> 3
          AND (wanted.value ->> 2
               OR NOT EXISTS (
                   SELECT 1
                   FROM jobs AS running INDEXED BY jobs_by_session
                   WHERE running.queue_no = wanted.value ->> 0
                     AND running.session = wanted.value ->> 1
                     AND running.session IS NOT NULL
                     AND running.visible_at_ms > :now_ms
                     AND running.token <> 0
                     AND running.worker_id <> :worker_id
               ))
        ORDER BY jobs.visible_at_ms
        LIMIT :limit
    )
)))
FROM (SELECT value FROM json_each(:sessions) LIMIT -1) AS wanted
WHERE true;
