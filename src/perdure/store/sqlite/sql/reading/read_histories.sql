-- Read events of executions in order, up to a number of rows and bytes.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, after_seq, last_seq], ...];
-- max_events; max_bytes (the event that passes it is still returned). Returns: one row of a JSON
-- text [[index of the key, seq, length of the body, kind, at_ms], ...] and a blob of the bodies in
-- the same order. An aggregate may see rows in any order, but both see the same.
SELECT
    json_group_array(json_array(key, seq, length(body), kind, at_ms)),
    CAST(group_concat(body, '') AS BLOB)
FROM (
    SELECT
        wanted.key,
        history.seq,
        history.kind,
        history.at_ms,
        history.body,
        row_number() OVER reading AS position,
        sum(length(history.body)) OVER reading - length(history.body) AS bytes_before
    FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
    CROSS JOIN history
    WHERE history.part = wanted.value ->> 0
      AND history.instance_id = wanted.value ->> 1
      AND history.incarnation = wanted.value ->> 2
      AND history.execution = wanted.value ->> 3
      AND history.seq > wanted.value ->> 4
      AND history.seq <= wanted.value ->> 5
    WINDOW reading AS (ORDER BY wanted.key, history.seq)
)
WHERE position <= :max_events
  AND bytes_before <= :max_bytes;
