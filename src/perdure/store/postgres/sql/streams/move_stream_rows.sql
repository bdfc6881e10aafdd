-- Give new indexes to all that is behind an index, in the same order.
-- Params: part; instance_id; stream; after; next_index (the first of them). Returns: nothing.
UPDATE perdure.perdure_streams
SET last_index = moved.new_index
FROM (
    SELECT
        last_index AS old_index,
        :next_index::bigint - 1
            + (sum(items) OVER (ORDER BY last_index))::bigint AS new_index
    FROM perdure.perdure_streams
    WHERE part = :part::smallint
      AND instance_id = :instance_id::text
      AND stream = :stream::text
      AND last_index > :after::bigint
) AS moved
WHERE perdure_streams.part = :part::smallint
  AND perdure_streams.instance_id = :instance_id::text
  AND perdure_streams.stream = :stream::text
  AND perdure_streams.last_index = moved.old_index;
