-- Read what is new of instances since they were remembered: their live rows, and of those that have
-- moved on in the same execution which turn has written the last events before, and the events
-- behind these, up to a number of rows and bytes.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, next_seq, commit_id], ...], as
-- remembered; max_events; max_bytes (the event that passes it is still returned). Returns: one row
-- of a JSON text [[index of the key, commit_id or null, null, column, ...], ...], a JSON text
-- [[index of the key, seq, length of the body, kind, at_ms], ...] and a blob of the bodies in the
-- same order. An aggregate may see rows in any order, but both see the same.
-- CROSS JOIN: see load_live.
WITH found AS MATERIALIZED (
    SELECT
        wanted.key,
        wanted.value ->> 4 AS known_seq,
        live.incarnation = wanted.value ->> 2
            AND live.execution = wanted.value ->> 3
            AND live.last_commit <> wanted.value ->> 5
            AND live.next_seq >= wanted.value ->> 4 AS has_moved,
        live.*
    FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
    CROSS JOIN live
    WHERE live.part = wanted.value ->> 0
      AND live.instance_id = wanted.value ->> 1
)
SELECT
    (
        SELECT json_group_array(json_array(
            found.key,
            CASE WHEN found.has_moved THEN (
                SELECT history.commit_id
                FROM history
                WHERE history.part = found.part
                  AND history.instance_id = found.instance_id
                  AND history.incarnation = found.incarnation
                  AND history.execution = found.execution
                  AND history.seq < found.known_seq
                  AND history.commit_id IS NOT NULL
                ORDER BY history.seq DESC
                LIMIT 1
            ) END,
            NULL,
            found.definition_no,
            found.incarnation,
            found.execution,
            found.next_seq,
            found.wake_at_ms,
            found.lease,
            found.lease_until_ms,
            found.home,
            found.last_no,
            found.last_at_ms,
            found.last_commit,
            found.attempts,
            found.blocked_by
        ))
        FROM found
    ),
    json_group_array(json_array(key, seq, length(body), kind, at_ms)),
    CAST(group_concat(body, '') AS BLOB)
FROM (
    SELECT
        found.key,
        history.seq,
        history.kind,
        history.at_ms,
        history.body,
        row_number() OVER reading AS position,
        sum(length(history.body)) OVER reading - length(history.body) AS bytes_before
    FROM found
    CROSS JOIN history
    WHERE found.has_moved
      AND history.part = found.part
      AND history.instance_id = found.instance_id
      AND history.incarnation = found.incarnation
      AND history.execution = found.execution
      AND history.seq >= found.known_seq
    WINDOW reading AS (ORDER BY found.key, history.seq)
)
WHERE position <= :max_events
  AND bytes_before <= :max_bytes;
