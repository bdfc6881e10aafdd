-- Tell where in a stream begins what is to be taken back, and how many rows that is.
-- Params: part; instance_id; stream. Returns: first index or 0, rows.
SELECT coalesce(min(sent.last_index - sent.items + 1), 0), count(*)
FROM perdure.perdure_streams AS sent
WHERE sent.part = :part::smallint
  AND sent.instance_id = :instance_id::text
  AND sent.stream = :stream::text
  AND @is_void;
