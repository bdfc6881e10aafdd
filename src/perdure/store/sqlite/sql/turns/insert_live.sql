-- Write live rows of instances that had none.
-- Params: rows, JSON [[part, instance_id, definition_no, incarnation, execution, next_seq,
-- wake_at_ms, lease, lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by,
-- is_stored], ...]. Returns: nothing.
INSERT INTO live (
    part, instance_id, definition_no, incarnation, execution, next_seq, wake_at_ms, lease,
    lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13,
    value ->> 14
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true;
