-- Give new indexes to all that is behind an index, in the same order.
-- Params: part; instance_id; stream; after; next_index (the first of them). Returns: nothing.
UPDATE perdure_streams
SET last_index = moved.new_index
FROM (
    SELECT
        last_index AS old_index,
        :next_index - 1 + sum(items) OVER (ORDER BY last_index) AS new_index
    FROM perdure_streams
    WHERE part = :part
      AND instance_id = :instance_id
      AND stream = :stream
      AND last_index > :after
) AS moved
WHERE perdure_streams.part = :part
  AND perdure_streams.instance_id = :instance_id
  AND perdure_streams.stream = :stream
  AND perdure_streams.last_index = moved.old_index;
