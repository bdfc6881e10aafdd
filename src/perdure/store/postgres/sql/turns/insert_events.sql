-- Append events to histories.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, kind, at_ms, body_begin,
-- body_length, commit_id], ...]; bodies. Returns: nothing.
INSERT INTO perdure.history (
    part, instance_id, incarnation, execution, seq, kind, at_ms, body, commit_id
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    (value ->> 4)::bigint, value ->> 5, (value ->> 6)::bigint,
    substr(:bodies::bytea, (value ->> 7)::int, (value ->> 8)::int), (value ->> 9)::bigint
FROM jsonb_array_elements(:rows::jsonb);
