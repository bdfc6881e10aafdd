-- Tell which attempts have their jobs still, and let those stay until the end of the transaction.
-- Params: leases, JSON [[part, instance_id, incarnation, execution, seq, token], ...].
-- Returns: one JSON text, [index of the lease, ...].
SELECT json_group_array(held.key)
FROM (SELECT key, value FROM json_each(:leases) LIMIT -1) AS held
CROSS JOIN jobs
WHERE jobs.part = held.value ->> 0
  AND jobs.instance_id = held.value ->> 1
  AND jobs.incarnation = held.value ->> 2
  AND jobs.execution = held.value ->> 3
  AND jobs.seq = held.value ->> 4
  AND jobs.token = held.value ->> 5
  AND jobs.token <> 0;
