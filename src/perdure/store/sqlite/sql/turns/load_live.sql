-- Load the live rows a batch touches.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key,
-- column, ...], ...].
-- CROSS JOIN keeps the keys outside, so each row is found by its primary key.
SELECT json_group_array(json_array(
    wanted.key,
    live.definition_no,
    live.incarnation,
    live.execution,
    live.next_seq,
    live.wake_at_ms,
    live.lease,
    live.lease_until_ms,
    live.home,
    live.last_no,
    live.last_at_ms,
    live.last_commit,
    live.attempts,
    live.blocked_by
))
FROM json_each(:keys) AS wanted
CROSS JOIN live
WHERE live.part = wanted.value ->> 0
  AND live.instance_id = wanted.value ->> 1;
