-- Forget a message that was dropped, so that its id may be given again. What was decided stays.
-- Params: part; instance_id; no. Returns: nothing.
DELETE FROM receipts
WHERE part = :part
  AND instance_id = :instance_id
  AND no = :no
  AND outcome IS NULL;
