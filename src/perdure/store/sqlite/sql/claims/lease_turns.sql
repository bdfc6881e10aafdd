-- Lease instances that were just found, and count the attempt.
-- Params: keys, JSON [[part, instance_id], ...]; lease; until_ms; worker_id. Returns: nothing.
-- wake_at_ms becomes the end of the lease, so an abandoned instance is found like a ready one. The
-- claimer becomes the home, so that the home of a leased instance is who holds the lease.
UPDATE live
SET home = :worker_id,
    lease = :lease,
    lease_until_ms = :until_ms,
    wake_at_ms = :until_ms,
    attempts = live.attempts + 1
FROM json_each(:keys) AS claimed
WHERE live.part = claimed.value ->> 0
  AND live.instance_id = claimed.value ->> 1;
