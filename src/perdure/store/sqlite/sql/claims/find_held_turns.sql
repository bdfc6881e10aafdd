-- Tell which leases on turns are still held: the token is stored and the time has not run out.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms. Returns: one JSON text,
-- [index of the lease, ...].
SELECT json_group_array(held.key)
FROM (SELECT key, value FROM json_each(:leases) LIMIT -1) AS held
CROSS JOIN live
WHERE live.part = held.value ->> 0
  AND live.instance_id = held.value ->> 1
  AND live.lease = held.value ->> 2
  AND live.lease <> 0
  AND live.lease_until_ms > :now_ms;
