-- Read the visible messages of claimed instances.
-- Params: keys, JSON [[part, instance_id], ...]; now_ms; max_messages; max_bytes (per instance; the
-- message that passes it is still returned). Returns: one row of a JSON text [[index of the key,
-- position, length of the body, how many are visible, no, effective_at_ms, execution, kind,
-- timer_key], ...] and a blob of the bodies in the same order. An aggregate may see rows in any
-- order, but both see the same.
-- The start comes first, then what an execution gave to the next one (numbers below 0); of what is
-- effective at the same time, timers come last.
SELECT
    json_group_array(json_array(
        key, position, length(body), visible, no, effective_at_ms, execution, kind, timer_key
    )),
    CAST(group_concat(body, '') AS BLOB)
FROM (
    SELECT
        wanted.key,
        inbox.*,
        count(*) OVER (PARTITION BY wanted.key) AS visible,
        row_number() OVER applied AS position,
        sum(length(inbox.body)) OVER applied - length(inbox.body) AS bytes_before
    FROM json_each(:keys) AS wanted
    CROSS JOIN inbox
    WHERE inbox.part = wanted.value ->> 0
      AND inbox.instance_id = wanted.value ->> 1
      AND (inbox.rank < 2 OR inbox.effective_at_ms <= :now_ms)
    WINDOW applied AS (
        PARTITION BY wanted.key
        ORDER BY
            inbox.rank > 0, min(inbox.no, 0), inbox.effective_at_ms, inbox.rank, inbox.no
    )
)
WHERE position <= :max_messages
  AND bytes_before <= :max_bytes;
