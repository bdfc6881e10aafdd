-- Read the visible messages of claimed instances.
-- Params: keys, JSON [[part, instance_id], ...]; now_ms; max_messages; max_bytes (per instance; the
-- message that passes it is still returned). Returns: one row of a JSON text [[index of the key,
-- position, length of the body, how many are visible, no, effective_at_ms, execution, kind,
-- timer_key], ...] and the bodies in the same order. The aggregates have no order of their own, so
-- both see the rows in the same one.
-- The start comes first, then what an execution gave to the next one (numbers below 0); of what is
-- effective at the same time, timers come last.
-- ANY: see load_live.
SELECT
    coalesce(json_agg(json_build_array(
        key, position, length(body), visible, no, effective_at_ms, execution, kind, timer_key
    )), '[]'::json),
    string_agg(body, ''::bytea)
FROM (
    SELECT
        wanted.position - 1 AS key,
        inbox.*,
        count(*) OVER (PARTITION BY wanted.position) AS visible,
        row_number() OVER applied AS position,
        sum(length(inbox.body)) OVER applied - length(inbox.body) AS bytes_before
    FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
    JOIN perdure.inbox
        ON inbox.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
       AND inbox.instance_id = wanted.value ->> 1
    WHERE inbox.rank < 2 OR inbox.effective_at_ms <= :now_ms::bigint
    WINDOW applied AS (
        PARTITION BY wanted.position
        ORDER BY
            inbox.rank > 0, least(inbox.no, 0), inbox.effective_at_ms, inbox.rank, inbox.no
    )
) AS visible_messages
WHERE position <= :max_messages::bigint
  AND bytes_before <= :max_bytes::bigint;
