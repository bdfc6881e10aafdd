-- List every execution that has events.
-- Params: none. Returns: instance_id, incarnation, execution.
SELECT DISTINCT instance_id, incarnation, execution
FROM perdure.history
ORDER BY instance_id, incarnation, execution;
