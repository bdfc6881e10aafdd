-- End the leases of a dead worker on the feed, as if they had run out now: the next claim counts
-- a loss.
-- Params: worker_id; now_ms. Returns: nothing.
UPDATE checkpoints
SET lease_until_ms = :now_ms
WHERE worker_id = :worker_id
  AND lease <> 0
  AND lease_until_ms > :now_ms;
