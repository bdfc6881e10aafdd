-- Remove one message or timer; the start is not one that can be dropped.
-- Params: part; instance_id; no. Returns: its kind and body, if there was one.
DELETE FROM inbox
WHERE part = :part
  AND instance_id = :instance_id
  AND no = :no
  AND rank > 0
RETURNING kind, body;
