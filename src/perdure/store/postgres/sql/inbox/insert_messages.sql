-- Put messages and timers into inboxes.
-- Params: rows, JSON [[part, instance_id, no, effective_at_ms, rank, execution, kind, timer_key,
-- body_begin, body_length], ...]; bodies. Returns: nothing.
INSERT INTO perdure.inbox (
    part, instance_id, no, effective_at_ms, rank, execution, kind, timer_key, body
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    (value ->> 4)::smallint, (value ->> 5)::bigint, value ->> 6, value ->> 7,
    substr(:bodies::bytea, (value ->> 8)::int, (value ->> 9)::int)
FROM jsonb_array_elements(:rows::jsonb);
