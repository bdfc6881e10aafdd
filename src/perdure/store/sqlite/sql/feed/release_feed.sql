-- Give back the right to read the feed under a name.
-- Params: name; lease. Returns: nothing.
UPDATE checkpoints
SET lease = 0,
    lease_until_ms = 0
WHERE name = :name
  AND lease = :lease;
