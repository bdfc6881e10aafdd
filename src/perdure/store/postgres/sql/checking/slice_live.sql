-- Read the live rows of a range of ids.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, definition_no, incarnation, execution, next_seq, wake_at_ms, lease,
-- lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by.
SELECT
    instance_id,
    definition_no,
    incarnation,
    execution,
    next_seq,
    wake_at_ms,
    lease,
    lease_until_ms,
    home,
    last_no,
    last_at_ms,
    last_commit,
    attempts,
    blocked_by
FROM perdure.live
WHERE @slice_range
ORDER BY part, instance_id;
