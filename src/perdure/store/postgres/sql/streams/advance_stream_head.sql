-- Let the next index of a stream be the one behind its last row.
-- Params: part; instance_id; stream. Returns: nothing.
UPDATE perdure.perdure_stream_heads
SET next_index = 1 + (
        SELECT max(sent.last_index)
        FROM perdure.perdure_streams AS sent
        WHERE sent.part = :part::smallint
          AND sent.instance_id = :instance_id::text
          AND sent.stream = :stream::text
    )
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND stream = :stream::text;
