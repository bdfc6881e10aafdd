-- Write live rows, new or changed.
-- Params: rows, JSON [[part, instance_id, definition_no, incarnation, execution, next_seq,
-- wake_at_ms, lease, lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by,
-- is_stored], ...]. Returns: nothing.
-- One statement for both: a batch knows the whole row, and ON CONFLICT costs no second search.
-- (WHERE true keeps the parser from taking ON for a join.)
INSERT INTO live (
    part, instance_id, definition_no, incarnation, execution, next_seq, wake_at_ms, lease,
    lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13,
    value ->> 14
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true
ON CONFLICT (part, instance_id) DO UPDATE SET
    definition_no = excluded.definition_no,
    incarnation = excluded.incarnation,
    execution = excluded.execution,
    next_seq = excluded.next_seq,
    wake_at_ms = excluded.wake_at_ms,
    lease = excluded.lease,
    lease_until_ms = excluded.lease_until_ms,
    home = excluded.home,
    last_no = excluded.last_no,
    last_at_ms = excluded.last_at_ms,
    last_commit = excluded.last_commit,
    attempts = excluded.attempts,
    blocked_by = excluded.blocked_by;
