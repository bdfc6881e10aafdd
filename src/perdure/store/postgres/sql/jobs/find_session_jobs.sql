-- Find jobs of sessions that wait or whose lease ran out, longest waiting first.
-- Params: sessions, JSON [[queue_no, session, whether it is ours, losses_below], ...]; worker_id;
-- now_ms; limit (per session). Returns: one JSON text, for each session [[part, instance_id,
-- incarnation, execution, seq, visible_at_ms, losses, session], ...]. Losses: see find_jobs.
-- A session that is not ours yet has nothing for us as long as another worker runs a job of it.
-- What is found is locked, and what others have locked is left to them. Who of two that found jobs
-- of one session gets it is decided by take_sessions.
WITH found AS MATERIALIZED (
    SELECT wanted.position, waiting.*
    FROM jsonb_array_elements(:sessions::jsonb) WITH ORDINALITY AS wanted (value, position)
    CROSS JOIN LATERAL (
        SELECT
            jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq,
            jobs.visible_at_ms, jobs.lost + (jobs.token <> 0)::int AS losses, jobs.session
        FROM perdure.jobs
        WHERE jobs.queue_no = (wanted.value ->> 0)::bigint
          AND jobs.session = wanted.value ->> 1
          AND jobs.visible_at_ms <= :now_ms::bigint
          AND jobs.lost + (jobs.token <> 0)::int < (wanted.value ->> 3)::bigint
          AND ((wanted.value ->> 2)::boolean
               OR NOT EXISTS (
                   SELECT 1
                   FROM perdure.jobs AS running
                   WHERE running.queue_no = (wanted.value ->> 0)::bigint
                     AND running.session = wanted.value ->> 1
                     AND running.visible_at_ms > :now_ms::bigint
                     AND running.token <> 0
                     AND running.worker_id <> :worker_id::text
               ))
        ORDER BY jobs.visible_at_ms
        LIMIT :limit::bigint
        FOR UPDATE OF jobs SKIP LOCKED
    ) AS waiting
)
SELECT coalesce(json_agg((
    SELECT coalesce(json_agg(json_build_array(
        part, instance_id, incarnation, execution, seq, visible_at_ms, losses, session
    ) ORDER BY visible_at_ms), '[]'::json)
    FROM found
    WHERE found.position = wanted.position
) ORDER BY wanted.position), '[]'::json)
FROM jsonb_array_elements(:sessions::jsonb) WITH ORDINALITY AS wanted (value, position);
