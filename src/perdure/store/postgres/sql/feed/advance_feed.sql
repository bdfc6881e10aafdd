-- Move a checkpoint forward under its lease; what was said of where it stood is over.
-- Params: name; lease; from_pos; to_pos; now_ms. Returns: a row if it stands there now.
-- Sent again it stands there already, and no other can have moved it under that lease. A
-- claim of the name meanwhile waits for this transaction: the row is locked until it ends.
UPDATE perdure.checkpoints
SET pos = :to_pos::bigint,
    reason = NULL,
    losses = CASE WHEN pos < :to_pos::bigint THEN 0 ELSE losses END,
    updated_ms = :now_ms::bigint
WHERE part = 0
  AND name = :name::text
  AND lease = :lease::bigint
  AND pos IN (:from_pos::bigint, :to_pos::bigint)
  AND :from_pos::bigint <= :to_pos::bigint
RETURNING pos;
