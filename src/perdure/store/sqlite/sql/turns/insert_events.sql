-- Append events to histories.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, kind, at_ms, body_begin,
-- body_length, commit_id], ...]; bodies. Returns: nothing.
INSERT INTO history (
    part, instance_id, incarnation, execution, seq, kind, at_ms, body, commit_id
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    substr(:bodies, value ->> 7, value ->> 8), value ->> 9
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true;
