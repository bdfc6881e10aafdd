-- Remove a worker that stops. It is no instance's home any more: see find_turns.
-- Params: worker_id. Returns: nothing.
DELETE FROM workers
WHERE worker_id = :worker_id;
