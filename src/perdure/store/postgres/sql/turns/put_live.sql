-- Write live rows, new or changed.
-- Params: rows, JSON [[part, instance_id, definition_no, incarnation, execution, next_seq,
-- wake_at_ms, lease, lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by,
-- is_stored], ...]. Returns: nothing.
-- A stored row is locked by the batch that writes it. A new one is plainly inserted: if another
-- batch has made it meanwhile, this one decided on rows that are no longer true, and must fail. In
-- order of the key, so that two batches with the same new rows never wait for each other.
-- ANY: see load_live.
WITH given AS MATERIALIZED (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS definition_no,
        (value ->> 3)::bigint AS incarnation,
        (value ->> 4)::bigint AS execution,
        (value ->> 5)::bigint AS next_seq,
        (value ->> 6)::bigint AS wake_at_ms,
        (value ->> 7)::bigint AS lease,
        (value ->> 8)::bigint AS lease_until_ms,
        value ->> 9 AS home,
        (value ->> 10)::bigint AS last_no,
        (value ->> 11)::bigint AS last_at_ms,
        (value ->> 12)::bigint AS last_commit,
        (value ->> 13)::bigint AS attempts,
        value ->> 14 AS blocked_by,
        value ->> 15 = '1' AS is_stored
    FROM jsonb_array_elements(:rows::jsonb)
    ORDER BY 1, 2
),
changed AS (
    UPDATE perdure.live
    SET definition_no = given.definition_no,
        incarnation = given.incarnation,
        execution = given.execution,
        next_seq = given.next_seq,
        wake_at_ms = given.wake_at_ms,
        lease = given.lease,
        lease_until_ms = given.lease_until_ms,
        home = given.home,
        last_no = given.last_no,
        last_at_ms = given.last_at_ms,
        last_commit = given.last_commit,
        attempts = given.attempts,
        blocked_by = given.blocked_by
    FROM given
    WHERE given.is_stored
      AND live.part = ANY (ARRAY[given.part])
      AND live.instance_id = given.instance_id
)
INSERT INTO perdure.live (
    part, instance_id, definition_no, incarnation, execution, next_seq, wake_at_ms, lease,
    lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by
)
SELECT
    part, instance_id, definition_no, incarnation, execution, next_seq, wake_at_ms, lease,
    lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by
FROM given
WHERE NOT is_stored;
