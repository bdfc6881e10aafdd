-- Give back the right to read the feed under a name.
-- Params: name; lease. Returns: nothing.
UPDATE perdure.checkpoints
SET lease = 0,
    lease_until_ms = 0
WHERE part = 0
  AND name = :name::text
  AND lease = :lease::bigint;
