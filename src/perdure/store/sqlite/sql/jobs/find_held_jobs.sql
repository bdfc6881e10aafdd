-- Tell which leases on jobs are still held: the token is stored and the time has not run out.
-- Params: leases, JSON [[part, instance_id, incarnation, execution, seq, token], ...]; now_ms.
-- Returns: one JSON text, [[index of the lease, session], ...].
SELECT json_group_array(json_array(held.key, jobs.session))
FROM (SELECT key, value FROM json_each(:leases) LIMIT -1) AS held
CROSS JOIN jobs
WHERE jobs.part = held.value ->> 0
  AND jobs.instance_id = held.value ->> 1
  AND jobs.incarnation = held.value ->> 2
  AND jobs.execution = held.value ->> 3
  AND jobs.seq = held.value ->> 4
  AND jobs.token = held.value ->> 5
  AND jobs.token <> 0
  AND jobs.visible_at_ms > :now_ms;
