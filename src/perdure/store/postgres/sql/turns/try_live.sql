-- Lock and load the live rows of instances that no other transaction has locked.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key,
-- column, ...], ...]; of a row that is locked, nothing.
-- Without waiting: a row may be locked by a transaction of a user, open for long.
WITH locked AS MATERIALIZED (
    SELECT wanted.key, live.*
    FROM (
        SELECT
            position - 1 AS key,
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id
        FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS given (value, position)
    ) AS wanted
    JOIN perdure.live
        ON live.part = ANY (ARRAY[wanted.part])
       AND live.instance_id = wanted.instance_id
    ORDER BY wanted.part, wanted.instance_id
    FOR UPDATE OF live SKIP LOCKED
)
SELECT coalesce(json_agg(json_build_array(
    key,
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
)), '[]'::json)
FROM locked;
