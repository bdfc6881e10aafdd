-- Put messages and timers into inboxes.
-- Params: rows, JSON [[part, instance_id, no, effective_at_ms, rank, execution, kind, timer_key,
-- body_begin, body_length], ...]; bodies. Returns: nothing.
INSERT INTO inbox (
    part, instance_id, no, effective_at_ms, rank, execution, kind, timer_key, body
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, substr(:bodies, value ->> 8, value ->> 9)
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true;
