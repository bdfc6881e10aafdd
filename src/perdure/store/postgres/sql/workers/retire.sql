-- Remove a worker that stops. It is no instance's home any more: see find_turns.
-- Params: worker_id. Returns: nothing.
DELETE FROM perdure.workers
WHERE part = 0
  AND worker_id = :worker_id::text;
