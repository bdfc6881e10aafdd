-- End the leases of a dead worker on the feed, as if they had run out now: the next claim counts
-- a loss.
-- Params: worker_id; now_ms. Returns: nothing.
-- What is locked is left alone, so that this never waits; its lease runs out.
WITH held AS MATERIALIZED (
    SELECT checkpoints.part, checkpoints.name
    FROM perdure.checkpoints
    WHERE checkpoints.worker_id = :worker_id::text
      AND checkpoints.lease <> 0
      AND checkpoints.lease_until_ms > :now_ms::bigint
    FOR UPDATE SKIP LOCKED
)
UPDATE perdure.checkpoints
SET lease_until_ms = :now_ms::bigint
FROM held
WHERE checkpoints.part = held.part
  AND checkpoints.name = held.name;
