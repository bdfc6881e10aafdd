-- Add jobs, waiting or leased to the worker that commits.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, queue_no, visible_at_ms,
-- token, worker_id, attempt, session, policy_begin, policy_length, input_begin, input_length,
-- start_by_ms], ...]; bodies; now_ms. Returns: nothing.
INSERT INTO perdure.jobs (
    part, instance_id, incarnation, execution, seq, queue_no, visible_at_ms, token, worker_id,
    attempt, lost, created_ms, session, policy, input, start_by_ms
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    (value ->> 4)::bigint, (value ->> 5)::bigint, (value ->> 6)::bigint, (value ->> 7)::bigint,
    value ->> 8, (value ->> 9)::bigint, 0, :now_ms::bigint, value ->> 10,
    substr(:bodies::bytea, (value ->> 11)::int, (value ->> 12)::int),
    substr(:bodies::bytea, (value ->> 13)::int, (value ->> 14)::int),
    (value ->> 15)::bigint
FROM jsonb_array_elements(:rows::jsonb);
