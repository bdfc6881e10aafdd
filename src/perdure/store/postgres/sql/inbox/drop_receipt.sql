-- Forget a message that was dropped, so that its id may be given again. What was decided stays.
-- Params: part; instance_id; no; message_id, or empty text if only the number is known.
-- Returns: nothing. One that was handed on to another execution has another number since.
DELETE FROM perdure.receipts
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND (no = :no::bigint OR message_id = :message_id::text)
  AND outcome IS NULL;
