-- Take or keep the right to read the feed under a name; a new name begins before all events.
-- Params: name; lease; until_ms; worker_id; now_ms. Returns: name, pos, status, reason, losses,
-- lease_until_ms, updated_ms; or no row if it cannot be had.
-- A lease that ran out means a worker that was lost. If there were events to handle, that counts.
INSERT INTO checkpoints (
    name, pos, lease, lease_until_ms, worker_id, status, reason, losses, updated_ms
)
VALUES (:name, 0, :lease, :until_ms, :worker_id, 'running', NULL, 0, :now_ms)
ON CONFLICT (name) DO UPDATE SET
    losses = checkpoints.losses + (
        checkpoints.lease NOT IN (0, excluded.lease)
        AND checkpoints.pos < (SELECT coalesce(max(pos), 0) FROM feed)
    ),
    lease = excluded.lease,
    lease_until_ms = excluded.lease_until_ms,
    worker_id = excluded.worker_id
WHERE checkpoints.status = 'running'
  AND (checkpoints.lease IN (0, excluded.lease) OR checkpoints.lease_until_ms <= :now_ms)
RETURNING name, pos, status, reason, losses, lease_until_ms, updated_ms;
