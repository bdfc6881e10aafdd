-- Add jobs, waiting or leased to the worker that commits.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, queue_no, visible_at_ms,
-- token, worker_id, attempt, session, policy_begin, policy_length, input_begin, input_length,
-- start_by_ms], ...]; bodies; now_ms. Returns: nothing.
INSERT INTO jobs (
    part, instance_id, incarnation, execution, seq, queue_no, visible_at_ms, token, worker_id,
    attempt, lost, created_ms, session, policy, input, start_by_ms
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, value ->> 9, 0, :now_ms, value ->> 10,
    substr(:bodies, value ->> 11, value ->> 12), substr(:bodies, value ->> 13, value ->> 14),
    value ->> 15
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true;
