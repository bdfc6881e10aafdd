-- Move a checkpoint forward under its lease; what was said of where it stood is over.
-- Params: name; lease; from_pos; to_pos; now_ms. Returns: a row if it stands there now.
-- Sent again it stands there already, and no other can have moved it under that lease.
UPDATE checkpoints
SET pos = :to_pos,
    reason = NULL,
    losses = iif(pos < :to_pos, 0, losses),
    updated_ms = :now_ms
WHERE name = :name
  AND lease = :lease
  AND pos IN (:from_pos, :to_pos)
  AND :from_pos <= :to_pos
RETURNING pos;
