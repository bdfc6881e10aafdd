-- Let what was sent behind a cut be void, and give the rest to the execution that begins there.
-- Params: part; instance_id; execution; next_execution; kept (how many of its events);
-- reopened, JSON [seq, ...] (calls that are made again). Returns: nothing.
-- No job has the token -1.
UPDATE perdure.perdure_streams
SET execution = :next_execution::bigint,
    token = CASE
        WHEN seq > :kept::bigint THEN -1
        WHEN attempt > 0 AND seq IN (
            SELECT value::bigint FROM jsonb_array_elements_text(:reopened::jsonb) AS again (value)
        ) THEN -1
        ELSE token
    END
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND execution = :execution::bigint
  AND items > 0;
