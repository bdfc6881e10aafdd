-- Lease jobs that were just found, and count the attempt; one that still has a token was lost.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]; token; worker_id;
-- until_ms. Returns: nothing.
UPDATE jobs
SET token = :token,
    worker_id = :worker_id,
    visible_at_ms = :until_ms,
    attempt = jobs.attempt + 1,
    lost = jobs.lost + (jobs.token <> 0)
FROM (SELECT value FROM json_each(:keys) LIMIT -1) AS claimed
WHERE jobs.part = claimed.value ->> 0
  AND jobs.instance_id = claimed.value ->> 1
  AND jobs.incarnation = claimed.value ->> 2
  AND jobs.execution = claimed.value ->> 3
  AND jobs.seq = claimed.value ->> 4;
