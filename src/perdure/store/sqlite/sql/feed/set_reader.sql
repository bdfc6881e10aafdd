-- Change how a reader of the feed stands, and end its lease.
-- Params: name; lease, or NULL for any worker's; reason, UTF-8; status and pos, or NULL for no
-- change; now_ms. Returns: a row if there is such a reader.
UPDATE checkpoints
SET status = coalesce(:status, status),
    reason = CAST(:reason AS TEXT),
    pos = coalesce(:pos, pos),
    losses = 0,
    lease = 0,
    lease_until_ms = 0,
    updated_ms = :now_ms
WHERE name = :name
  AND (:lease IS NULL OR lease = :lease)
RETURNING name;
