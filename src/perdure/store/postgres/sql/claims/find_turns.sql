-- Find instances that are ready or whose lease ran out, longest waiting first, per definition.
-- Params: definitions, JSON [[definition_no, code], ...]; worker_id; now_ms; home_ms; losses_below;
-- limit.
-- Returns: one JSON text, for each definition [[part, instance_id, definition_no, incarnation,
-- execution, next_seq, last_commit, attempts, last_no], ...].
-- One index range per definition, so a backlog of what no code here serves costs nothing, and
-- nothing is sorted. An instance of another home is left to it until home_ms, as long as that
-- worker has not retired. One that some code did not fit is taken only with other code.
-- Those that were claimed too often are passed over; there are never more than died workers had.
-- What is found is locked, and what others have locked is left to them, so that two workers never
-- lease the same instance and never wait for each other.
WITH found AS MATERIALIZED (
    SELECT wanted.position, ready.*
    FROM jsonb_array_elements(:definitions::jsonb) WITH ORDINALITY AS wanted (value, position)
    CROSS JOIN LATERAL (
        SELECT
            live.part, live.instance_id, live.definition_no, live.incarnation, live.execution,
            live.next_seq, live.last_commit, live.attempts, live.last_no, live.wake_at_ms
        FROM perdure.live
        WHERE live.definition_no = (wanted.value ->> 0)::bigint
          AND live.wake_at_ms <= :now_ms::bigint
          AND live.attempts < :losses_below::bigint
          AND (live.blocked_by IS NULL
               OR (live.blocked_by <> '*'
                   AND strpos(live.blocked_by, wanted.value ->> 1) = 0))
          AND (live.home IS NULL
               OR live.home = :worker_id::text
               OR live.wake_at_ms <= :home_ms::bigint
               OR NOT EXISTS (
                   SELECT 1
                   FROM perdure.workers
                   WHERE workers.part = 0
                     AND workers.worker_id = live.home
               ))
        ORDER BY live.wake_at_ms
        LIMIT :limit::bigint
        FOR UPDATE OF live SKIP LOCKED
    ) AS ready
)
SELECT coalesce(json_agg((
    SELECT coalesce(json_agg(json_build_array(
        part, instance_id, definition_no, incarnation, execution, next_seq, last_commit, attempts,
        last_no
    ) ORDER BY wake_at_ms), '[]'::json)
    FROM found
    WHERE found.position = wanted.position
) ORDER BY wanted.position), '[]'::json)
FROM jsonb_array_elements(:definitions::jsonb) WITH ORDINALITY AS wanted (value, position);
