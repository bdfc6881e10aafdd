-- Keep jobs that are dead, before they are removed from their queues.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, failures_begin,
-- failures_length], ...]; bodies; now_ms. Returns: nothing.
-- REPLACE: a job that was put back and died again takes its own place.
INSERT OR REPLACE INTO dead_jobs (
    part, instance_id, incarnation, execution, seq, queue_no, attempt, lost, created_ms,
    died_ms, session, failures, policy, input
)
SELECT
    jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq, jobs.queue_no,
    jobs.attempt, jobs.lost, jobs.created_ms, :now_ms, jobs.session,
    substr(:bodies, dead.value ->> 5, dead.value ->> 6), jobs.policy, jobs.input
FROM (SELECT value FROM json_each(:rows) LIMIT -1) AS dead
CROSS JOIN jobs
WHERE jobs.part = dead.value ->> 0
  AND jobs.instance_id = dead.value ->> 1
  AND jobs.incarnation = dead.value ->> 2
  AND jobs.execution = dead.value ->> 3
  AND jobs.seq = dead.value ->> 4;
