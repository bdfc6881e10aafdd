-- End the lease of an instance, of any worker, and let it be claimed. The stamp changes, so that
-- no turn goes on from what was read before, with or without a lease.
-- Params: part; instance_id; commit_id; now_ms. Returns: nothing.
-- One without a lease is woken, unless it is held, unborn, or waits for the time of its first turn.
UPDATE perdure.live
SET lease = 0,
    lease_until_ms = 0,
    last_commit = :commit_id::bigint,
    wake_at_ms = CASE
        WHEN lease <> 0 OR (coalesce(blocked_by LIKE '-%', TRUE) AND next_seq > 1)
        THEN least(:now_ms::bigint, wake_at_ms)
        ELSE wake_at_ms
    END
WHERE part = :part::smallint
  AND instance_id = :instance_id::text;
