-- Read the keys of all dead jobs, for the checker.
-- Params: none. Returns: instance_id, incarnation, execution, seq.
SELECT instance_id, incarnation, execution, seq
FROM perdure.dead_jobs
ORDER BY instance_id, incarnation, execution, seq;
