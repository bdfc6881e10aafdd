-- Keep inputs that deciders were given.
-- Params: rows, JSON [[part, instance_id, no, at_ms, tag, outcome, input_id, input_begin,
-- input_length, rejection_begin, rejection_length], ...]; bodies. Returns: nothing.
INSERT INTO observations (
    part, instance_id, no, at_ms, tag, outcome, input_id, input, rejection
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    substr(:bodies, value ->> 7, value ->> 8),
    substr(:bodies, value ->> 9, value ->> 10)
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true;
