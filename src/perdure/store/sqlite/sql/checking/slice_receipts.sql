-- Read what inputs and messages of a range of ids came to.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one); with_payloads
-- (or only whether there is an outcome). Returns: instance_id, message_id, outcome or NULL.
SELECT instance_id, message_id, CASE WHEN :with_payloads THEN outcome ELSE substr(outcome, 1, 1) END
FROM receipts
WHERE @slice_range
ORDER BY part, instance_id, message_id;
