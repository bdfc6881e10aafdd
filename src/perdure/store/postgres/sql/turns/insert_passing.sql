-- Make live rows of instances that begin and end in one batch; they are deleted right after it.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: nothing.
-- Another transaction that inserts the same row waits for ours; if it was there first, we fail with
-- a unique violation, and the batch is run again.
INSERT INTO perdure.live (
    part, instance_id, incarnation, execution, next_seq, lease, lease_until_ms, last_no, last_at_ms,
    last_commit, attempts
)
SELECT (value ->> 0)::smallint, value ->> 1, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM jsonb_array_elements(:keys::jsonb)
ORDER BY 1, 2;
