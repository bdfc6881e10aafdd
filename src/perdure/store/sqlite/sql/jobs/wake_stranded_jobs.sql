-- Give jobs that were found stranded a time that comes, if they still are as they were.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, visible_at_ms, token,
-- rest_ms], ...], as found; now_ms; until_ms (when leases end that their holders do not renew).
-- Returns: nothing.
UPDATE jobs
SET visible_at_ms = CASE jobs.token WHEN 0 THEN :now_ms + found.rest_ms ELSE :until_ms END
FROM (
    SELECT given.value, given.value ->> 7 AS rest_ms
    FROM (SELECT value FROM json_each(:rows) LIMIT -1) AS given
    WHERE true
) AS found
WHERE jobs.part = found.value ->> 0
  AND jobs.instance_id = found.value ->> 1
  AND jobs.incarnation = found.value ->> 2
  AND jobs.execution = found.value ->> 3
  AND jobs.seq = found.value ->> 4
  AND jobs.visible_at_ms = found.value ->> 5
  AND jobs.token = found.value ->> 6;
