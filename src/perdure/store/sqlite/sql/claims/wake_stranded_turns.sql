-- Give instances that were found stranded a time that comes, if they still are as they were.
-- Params: rows, JSON [[part, instance_id, wake_at_ms, lease], ...], as found; now_ms; until_ms
-- (when leases end that their holders do not renew). Returns: nothing.
UPDATE live
SET wake_at_ms = CASE live.lease WHEN 0 THEN :now_ms ELSE :until_ms END,
    lease_until_ms = CASE live.lease WHEN 0 THEN live.lease_until_ms ELSE :until_ms END
FROM (SELECT value FROM json_each(:rows) LIMIT -1) AS found
WHERE live.part = found.value ->> 0
  AND live.instance_id = found.value ->> 1
  AND live.wake_at_ms = found.value ->> 2
  AND live.lease = found.value ->> 3;
