-- Remove the mark of a worker that has retired, or is gone.
-- Params: key, the lock of its connections. Returns: nothing.
DELETE FROM perdure.marks
WHERE part > 0::smallint
  AND mark = :key::bigint;
