-- Forget a reader of the feed and how far it has come, unless a worker reads under its name.
-- Params: name; now_ms. Returns: a row if it was forgotten.
DELETE FROM perdure.checkpoints
WHERE part = 0
  AND name = :name::text
  AND (lease = 0 OR lease_until_ms <= :now_ms::bigint)
RETURNING name;
