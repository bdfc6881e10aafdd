-- Load the jobs that a batch ends.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: one JSON
-- text, [[index of the key, token, attempt, failures in hex, session], ...].
SELECT json_group_array(json_array(
    wanted.key,
    jobs.token,
    jobs.attempt,
    iif(jobs.failures IS NULL, NULL, hex(jobs.failures)),
    jobs.session
))
FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN jobs
WHERE jobs.part = wanted.value ->> 0
  AND jobs.instance_id = wanted.value ->> 1
  AND jobs.incarnation = wanted.value ->> 2
  AND jobs.execution = wanted.value ->> 3
  AND jobs.seq = wanted.value ->> 4;
