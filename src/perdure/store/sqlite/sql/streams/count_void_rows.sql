-- Tell whether a stream has something to be taken back.
-- Params: part; instance_id; stream. Returns: 1 or 0.
SELECT EXISTS (
    SELECT 1
    FROM perdure_streams AS sent
    WHERE sent.part = :part
      AND sent.instance_id = :instance_id
      AND sent.stream = :stream
      AND @is_void
);
