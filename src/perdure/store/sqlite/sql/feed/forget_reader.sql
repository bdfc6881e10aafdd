-- Forget a reader of the feed and how far it has come, unless a worker reads under its name.
-- Params: name; now_ms. Returns: a row if it was forgotten.
DELETE FROM checkpoints
WHERE name = :name
  AND (lease = 0 OR lease_until_ms <= :now_ms)
RETURNING name;
