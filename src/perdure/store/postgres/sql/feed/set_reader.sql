-- Change how a reader of the feed stands, and end its lease.
-- Params: name; lease, or NULL for any worker's; reason, UTF-8; status and pos, or NULL for no
-- change; now_ms. Returns: a row if there is such a reader.
UPDATE perdure.checkpoints
SET status = coalesce(:status::text, status),
    reason = :reason::bytea,
    pos = coalesce(:pos::bigint, pos),
    losses = 0,
    lease = 0,
    lease_until_ms = 0,
    updated_ms = :now_ms::bigint
WHERE part = 0
  AND name = :name::text
  AND (:lease::bigint IS NULL OR lease = :lease::bigint)
RETURNING name;
