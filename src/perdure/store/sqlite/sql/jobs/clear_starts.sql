-- Note that jobs have started, so that nothing limits when they do.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: nothing.
UPDATE jobs
SET start_by_ms = NULL
FROM (SELECT value FROM json_each(:keys) LIMIT -1) AS started
WHERE jobs.part = started.value ->> 0
  AND jobs.instance_id = started.value ->> 1
  AND jobs.incarnation = started.value ->> 2
  AND jobs.execution = started.value ->> 3
  AND jobs.seq = started.value ->> 4;
