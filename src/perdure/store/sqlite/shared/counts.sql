-- Whether a row of a stream counts: for good, or as long as its attempt has the job.
-- Params: none. The row is `sent`.
(sent.token = 0 OR EXISTS (
    SELECT 1
    FROM jobs
    WHERE jobs.part = sent.part
      AND jobs.instance_id = sent.instance_id
      AND jobs.incarnation = sent.incarnation
      AND jobs.execution = sent.execution
      AND jobs.seq = sent.seq
      AND jobs.token = sent.token
))
