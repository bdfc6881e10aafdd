-- Find jobs that wait or whose lease ran out, longest waiting first, per queue.
-- Params: queues, JSON [[definition_no, losses_below], ...]; now_ms; limit. Returns: one JSON text,
-- for each queue [[part, instance_id, incarnation, execution, seq, visible_at_ms, losses], ...].
-- What still has a token was lost once more than its row says.
-- Those that were lost too often are passed over; there are never more than died workers had.
-- One index range per queue, so a backlog of what no code here serves costs nothing. What is found
-- is locked, and what others have locked is left to them, so that two workers never lease the same
-- job and never wait for each other.
WITH found AS MATERIALIZED (
    SELECT wanted.position, waiting.*
    FROM jsonb_array_elements(:queues::jsonb) WITH ORDINALITY AS wanted (value, position)
    CROSS JOIN LATERAL (
        SELECT
            jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq,
            jobs.visible_at_ms, jobs.lost + (jobs.token <> 0)::int AS losses
        FROM perdure.jobs
        WHERE jobs.queue_no = (wanted.value ->> 0)::bigint
          AND jobs.session IS NULL
          AND jobs.visible_at_ms <= :now_ms::bigint
          AND jobs.lost + (jobs.token <> 0)::int < (wanted.value ->> 1)::bigint
        ORDER BY jobs.visible_at_ms
        LIMIT :limit::bigint
        FOR UPDATE OF jobs SKIP LOCKED
    ) AS waiting
)
SELECT coalesce(json_agg((
    SELECT coalesce(json_agg(json_build_array(
        part, instance_id, incarnation, execution, seq, visible_at_ms, losses
    ) ORDER BY visible_at_ms), '[]'::json)
    FROM found
    WHERE found.position = wanted.position
) ORDER BY wanted.position), '[]'::json)
FROM jsonb_array_elements(:queues::jsonb) WITH ORDINALITY AS wanted (value, position);
