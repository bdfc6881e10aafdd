-- Give back turns that were claimed and not worked on; the attempt does not count.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms. Returns: a row for each that
-- another transaction has locked: none.
UPDATE live
SET lease = 0,
    lease_until_ms = 0,
    wake_at_ms = :now_ms,
    attempts = max(live.attempts - 1, 0)
FROM (SELECT value FROM json_each(:leases) LIMIT -1) AS held
WHERE live.part = held.value ->> 0
  AND live.instance_id = held.value ->> 1
  AND live.lease = held.value ->> 2
  AND live.lease <> 0;
