-- Remove the take-backs behind an index: a new one takes back all that they did.
-- Params: part; instance_id; stream; after. Returns: nothing.
DELETE FROM perdure.perdure_streams
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND stream = :stream::text
  AND last_index > :after::bigint
  AND items = 0;
