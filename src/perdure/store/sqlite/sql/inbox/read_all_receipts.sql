-- Read what all inputs and messages came to, for the checker.
-- Params: none. Returns: instance_id, message_id, outcome or NULL.
SELECT instance_id, message_id, outcome
FROM receipts
ORDER BY instance_id, message_id;
