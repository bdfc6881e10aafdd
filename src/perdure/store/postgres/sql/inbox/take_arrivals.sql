-- Remove all messages that are on their way to an instance, and return them.
-- Params: part; instance_id. Returns: no, body, in the order they were sent.
-- The instance's live row is locked, if there is one, so any other that moves its messages is done.
WITH gone AS (
    DELETE FROM perdure.arrivals
    WHERE part = :part::smallint
      AND instance_id = :instance_id::text
    RETURNING no, body
)
SELECT no, body
FROM gone
ORDER BY no;
