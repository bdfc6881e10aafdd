-- Forget a message that was dropped, so that its id may be given again. What was decided stays.
-- Params: part; instance_id; no. Returns: nothing.
DELETE FROM perdure.receipts
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND no = :no::bigint
  AND outcome IS NULL;
