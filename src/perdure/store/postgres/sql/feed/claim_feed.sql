-- Take or keep the right to read the feed under a name; a new name begins before all events.
-- Params: name; lease; until_ms; worker_id; now_ms. Returns: name, pos, status, reason, losses,
-- lease_until_ms, updated_ms; or no row if it cannot be had.
-- A lease that ran out means a worker that was lost. If there were events to handle, that counts:
-- they were given their positions just before. Who has the row locked is reading, perhaps for long,
-- or will be: no claim waits for that.
WITH free AS MATERIALIZED (
    SELECT
    FROM perdure.checkpoints
    WHERE checkpoints.part = 0
      AND checkpoints.name = :name::text
    FOR UPDATE SKIP LOCKED
)
INSERT INTO perdure.checkpoints AS stored (
    name, pos, lease, lease_until_ms, worker_id, status, reason, losses, updated_ms
)
SELECT
    :name::text, 0, :lease::bigint, :until_ms::bigint, :worker_id::text, 'running', NULL, 0,
    :now_ms::bigint
WHERE EXISTS (SELECT FROM free)
   OR NOT EXISTS (
       SELECT
       FROM perdure.checkpoints
       WHERE checkpoints.part = 0
         AND checkpoints.name = :name::text
   )
ON CONFLICT (part, name) DO UPDATE SET
    losses = CASE
        WHEN stored.lease IN (0, excluded.lease) THEN stored.losses
        WHEN EXISTS (SELECT 1 FROM perdure.feed WHERE feed.pos > stored.pos) THEN stored.losses + 1
        ELSE stored.losses
    END,
    lease = excluded.lease,
    lease_until_ms = excluded.lease_until_ms,
    worker_id = excluded.worker_id
WHERE stored.status = 'running'
  AND (stored.lease IN (0, excluded.lease) OR stored.lease_until_ms <= :now_ms::bigint)
RETURNING name, pos, status, reason, losses, lease_until_ms, updated_ms;
