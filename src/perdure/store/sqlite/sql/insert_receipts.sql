-- Remember which messages were delivered.
-- Params: rows, JSON [[part, instance_id, message_id], ...]; now_ms. Returns: nothing.
INSERT INTO receipts (part, instance_id, message_id, made_ms)
SELECT value ->> 0, value ->> 1, value ->> 2, :now_ms
FROM json_each(:rows);
