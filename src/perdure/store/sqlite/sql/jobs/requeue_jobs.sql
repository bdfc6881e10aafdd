-- Put jobs back into their queues after an attempt.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, visible_at_ms, attempt,
-- failures_begin, failures_length, details_begin, details_length], ...]; bodies. Returns: nothing.
UPDATE jobs
SET token = 0,
    worker_id = NULL,
    visible_at_ms = requeued.value ->> 5,
    attempt = requeued.value ->> 6,
    failures = substr(:bodies, requeued.value ->> 7, requeued.value ->> 8),
    details = coalesce(substr(:bodies, requeued.value ->> 9, requeued.value ->> 10), jobs.details)
FROM (SELECT value FROM json_each(:rows) LIMIT -1) AS requeued
WHERE jobs.part = requeued.value ->> 0
  AND jobs.instance_id = requeued.value ->> 1
  AND jobs.incarnation = requeued.value ->> 2
  AND jobs.execution = requeued.value ->> 3
  AND jobs.seq = requeued.value ->> 4;
