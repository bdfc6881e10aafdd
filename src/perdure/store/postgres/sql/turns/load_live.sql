-- Load the live rows of instances, without locking them.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key,
-- column, ...], ...].
-- ANY keeps the keys outside, so that each row is searched by index whatever the statistics say.
-- With `=` PostgreSQL may walk through the whole index of a table that is still small and compare
-- each row with all keys, and that plan stays in use while the table grows.
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1,
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
)), '[]'::json)
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.live
    ON live.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND live.instance_id = wanted.value ->> 1;
