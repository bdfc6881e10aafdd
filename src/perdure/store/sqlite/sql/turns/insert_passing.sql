-- Make live rows of instances that begin and end in one batch; they are deleted right after it.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: nothing.
-- Fails if there is such a row: messages that came before the instance wait for it.
INSERT INTO live (
    part, instance_id, incarnation, execution, next_seq, lease, lease_until_ms, last_no, last_at_ms,
    last_commit, attempts
)
SELECT value ->> 0, value ->> 1, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM json_each(:keys);
