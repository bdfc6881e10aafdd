-- Let a parked or blocked instance be tried again by every worker.
-- Params: part; instance_id; now_ms. Returns: a row if it was one.
-- Under a lease (a worker with other code tries it right now) it keeps the lease.
UPDATE live
SET blocked_by = NULL,
    attempts = 0,
    wake_at_ms = iif(lease <> 0 AND lease_until_ms > :now_ms, wake_at_ms, :now_ms)
WHERE part = :part
  AND instance_id = :instance_id
  AND blocked_by NOT LIKE '-%'
RETURNING incarnation;
