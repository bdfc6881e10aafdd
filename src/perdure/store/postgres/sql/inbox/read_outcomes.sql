-- Read what inputs of an instance came to.
-- Params: part; instance_id; ids, JSON [message_id, ...]. Returns: message_id, number in the inbox,
-- outcome or NULL.
-- OFFSET keeps the ids outside, so that each row is searched by index whatever the statistics say.
SELECT found.message_id, found.no, found.outcome
FROM jsonb_array_elements_text(:ids::jsonb) AS wanted (message_id)
CROSS JOIN LATERAL (
    SELECT receipts.message_id, receipts.no, receipts.outcome
    FROM perdure.receipts
    WHERE receipts.part = :part::smallint
      AND receipts.instance_id = :instance_id::text
      AND receipts.message_id = wanted.message_id
    OFFSET 0
) AS found;
