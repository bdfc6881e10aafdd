-- Remove one message or timer; the start is not one that can be dropped.
-- Params: part; instance_id; no. Returns: its kind and body, if there was one.
DELETE FROM perdure.inbox
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND no = :no::bigint
  AND rank > 0
RETURNING kind, body;
