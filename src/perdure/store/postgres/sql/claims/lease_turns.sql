-- Lease instances that were just found, and count the attempt.
-- Params: keys, JSON [[part, instance_id], ...]; lease; until_ms; worker_id. Returns: of each its
-- instance_id, its writer, which is this transaction, and the columns of its row as they are now.
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
  AND live.instance_id = claimed.value ->> 1
RETURNING
    live.instance_id,
    live.xmin::text,
    live.definition_no,
    live.incarnation,
    live.execution,
    live.next_seq,
    live.wake_at_ms,
    live.lease,
    live.lease_until_ms,
    live.home,
    live.last_no,
    live.last_at_ms,
    live.last_commit,
    live.attempts,
    live.blocked_by;
