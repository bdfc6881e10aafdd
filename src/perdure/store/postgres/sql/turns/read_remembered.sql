-- Load live rows, to compare them with what a writer remembers of them.
-- Params: keys, JSON [[part, instance_id, xid], ...]. Returns: one JSON text, [[index of the key,
-- column, ...], ...], without those that another transaction has written since.
-- For those who look for defects: see kept_check.
-- ANY: see load_live.
SELECT coalesce(json_agg(json_build_array(
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
)), '[]'::json)
FROM (
    SELECT
        position - 1 AS key,
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::xid8::xid AS writer
    FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS given (value, position)
) AS wanted
JOIN perdure.live
    ON live.part = ANY (ARRAY[wanted.part])
   AND live.instance_id = wanted.instance_id
WHERE live.xmin = wanted.writer;
