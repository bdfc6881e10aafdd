-- Read what inputs of an instance came to.
-- Params: part; instance_id; ids, JSON [message_id, ...]. Returns: message_id, number in the inbox,
-- outcome or NULL.
SELECT receipts.message_id, receipts.no, receipts.outcome
FROM jsonb_array_elements_text(:ids::jsonb) AS wanted (message_id)
JOIN perdure.receipts
    ON receipts.part = :part::smallint
   AND receipts.instance_id = :instance_id::text
   AND receipts.message_id = wanted.message_id;
