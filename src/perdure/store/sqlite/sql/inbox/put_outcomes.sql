-- Keep what inputs came to, delivered before or not. What an input came to never changes.
-- Params: rows, JSON [[part, instance_id, message_id, outcome_begin, outcome_length], ...]; bodies;
-- now_ms. Returns: nothing.
INSERT INTO receipts (part, instance_id, message_id, made_ms, outcome)
SELECT
    value ->> 0, value ->> 1, value ->> 2, :now_ms,
    substr(:bodies, value ->> 3, value ->> 4)
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true
ON CONFLICT (part, instance_id, message_id) DO UPDATE SET
    made_ms = excluded.made_ms,
    outcome = excluded.outcome
WHERE receipts.outcome IS NULL;
