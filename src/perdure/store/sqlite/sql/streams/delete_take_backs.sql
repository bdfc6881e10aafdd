-- Remove the take-backs behind an index: a new one takes back all that they did.
-- Params: part; instance_id; stream; after. Returns: nothing.
DELETE FROM perdure_streams
WHERE part = :part
  AND instance_id = :instance_id
  AND stream = :stream
  AND last_index > :after
  AND items = 0;
