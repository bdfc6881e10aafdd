-- Lease instances that were just found, and count the attempt.
-- Params: keys, JSON [[part, instance_id], ...]; lease; until_ms; worker_id. Returns: nothing.
-- wake_at_ms becomes the end of the lease, so an abandoned instance is found like a ready one. The
-- claimer becomes the home, so that the home of a leased instance is who holds the lease.
-- ANY: see load_live.
UPDATE perdure.live
SET home = :worker_id::text,
    lease = :lease::bigint,
    lease_until_ms = :until_ms::bigint,
    wake_at_ms = :until_ms::bigint,
    attempts = live.attempts + 1
FROM jsonb_array_elements(:keys::jsonb) AS claimed (value)
WHERE live.part = ANY (ARRAY[(claimed.value ->> 0)::smallint])
  AND live.instance_id = claimed.value ->> 1;
