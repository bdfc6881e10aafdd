-- Keep inputs that deciders were given.
-- Params: rows, JSON [[part, instance_id, no, at_ms, tag, outcome, input_id, input_begin,
-- input_length, rejection_begin, rejection_length], ...]; bodies. Returns: nothing.
-- Fails if another has given one of the numbers meanwhile.
INSERT INTO perdure.observations (
    part, instance_id, no, at_ms, tag, outcome, input_id, input, rejection
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    value ->> 4, value ->> 5, value ->> 6,
    substr(:bodies::bytea, (value ->> 7)::int, (value ->> 8)::int),
    substr(:bodies::bytea, (value ->> 9)::int, (value ->> 10)::int)
FROM jsonb_array_elements(:rows::jsonb);
