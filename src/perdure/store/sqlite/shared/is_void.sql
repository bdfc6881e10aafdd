-- Whether a row of a stream counts no more: its attempt has lost the job and did not succeed.
-- Params: none. The row is `sent`.
sent.token <> 0
AND NOT EXISTS (
    SELECT 1
    FROM jobs
    WHERE jobs.part = sent.part
      AND jobs.instance_id = sent.instance_id
      AND jobs.incarnation = sent.incarnation
      AND jobs.execution = sent.execution
      AND jobs.seq = sent.seq
      AND jobs.token = sent.token
)
