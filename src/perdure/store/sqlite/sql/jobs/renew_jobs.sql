-- Extend leases on jobs that are still held. Never shortens one and never revives one.
-- Params: leases, JSON [[part, instance_id, incarnation, execution, seq, token], ...]; now_ms;
-- until_ms. Returns: nothing.
UPDATE jobs
SET visible_at_ms = :until_ms
FROM (SELECT value FROM json_each(:leases) LIMIT -1) AS held
WHERE jobs.part = held.value ->> 0
  AND jobs.instance_id = held.value ->> 1
  AND jobs.incarnation = held.value ->> 2
  AND jobs.execution = held.value ->> 3
  AND jobs.seq = held.value ->> 4
  AND jobs.token = held.value ->> 5
  AND jobs.token <> 0
  AND jobs.visible_at_ms > :now_ms
  AND jobs.visible_at_ms < :until_ms;
