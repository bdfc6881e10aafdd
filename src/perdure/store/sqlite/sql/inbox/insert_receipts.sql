-- Remember which messages were delivered.
-- Params: rows, JSON [[part, instance_id, message_id, no], ...]; now_ms. Returns: nothing.
INSERT INTO receipts (part, instance_id, message_id, made_ms, no)
SELECT value ->> 0, value ->> 1, value ->> 2, :now_ms, value ->> 3
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true;
