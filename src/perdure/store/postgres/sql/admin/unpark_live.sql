-- Let a parked or blocked instance be tried again by every worker.
-- Params: part; instance_id; now_ms. Returns: a row if it was one.
-- Under a lease (a worker with other code tries it right now) it keeps the lease.
UPDATE perdure.live
SET blocked_by = NULL,
    attempts = 0,
    wake_at_ms = CASE
        WHEN lease <> 0 AND lease_until_ms > :now_ms::bigint THEN wake_at_ms
        ELSE :now_ms::bigint
    END
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND blocked_by NOT LIKE '-%'
RETURNING incarnation;
