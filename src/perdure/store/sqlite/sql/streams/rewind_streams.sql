-- Let what was sent behind a cut be void, and give the rest to the execution that begins there.
-- Params: part; instance_id; execution; next_execution; kept (how many of its events);
-- reopened, JSON [seq, ...] (calls that are made again). Returns: nothing.
-- No job has the token -1.
UPDATE perdure_streams
SET execution = :next_execution,
    token = CASE
        WHEN seq > :kept THEN -1
        WHEN attempt > 0 AND seq IN (SELECT value FROM json_each(:reopened)) THEN -1
        ELSE token
    END
WHERE part = :part
  AND instance_id = :instance_id
  AND execution = :execution
  AND items > 0;
