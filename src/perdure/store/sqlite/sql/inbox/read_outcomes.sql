-- Read what inputs of an instance came to.
-- Params: part; instance_id; ids, JSON [message_id, ...]. Returns: message_id, number in the inbox,
-- outcome or NULL.
SELECT receipts.message_id, receipts.no, receipts.outcome
FROM json_each(:ids) AS wanted
CROSS JOIN receipts
WHERE receipts.part = :part
  AND receipts.instance_id = :instance_id
  AND receipts.message_id = wanted.value;
