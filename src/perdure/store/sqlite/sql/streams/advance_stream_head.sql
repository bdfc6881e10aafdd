-- Let the next index of a stream be the one behind its last row.
-- Params: part; instance_id; stream. Returns: nothing.
UPDATE perdure_stream_heads
SET next_index = 1 + (
        SELECT max(sent.last_index)
        FROM perdure_streams AS sent
        WHERE sent.part = :part
          AND sent.instance_id = :instance_id
          AND sent.stream = :stream
    )
WHERE part = :part
  AND instance_id = :instance_id
  AND stream = :stream;
