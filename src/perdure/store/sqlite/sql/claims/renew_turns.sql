-- Extend leases on turns that are still held. Never shortens one and never revives one.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms; until_ms. Returns: nothing.
UPDATE live
SET lease_until_ms = :until_ms,
    wake_at_ms = :until_ms
FROM (SELECT value FROM json_each(:leases) LIMIT -1) AS held
WHERE live.part = held.value ->> 0
  AND live.instance_id = held.value ->> 1
  AND live.lease = held.value ->> 2
  AND live.lease <> 0
  AND live.lease_until_ms > :now_ms
  AND live.lease_until_ms < :until_ms;
