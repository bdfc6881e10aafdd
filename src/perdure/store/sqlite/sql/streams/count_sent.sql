-- Count the items that attempts have stored and that do not count for good yet.
-- Params: keys, JSON [[part, instance_id, token, execution, seq], ...]. Returns: one JSON text,
-- [[index of the key, items], ...].
-- A text column first, and casts: see keep_stream_rows.
SELECT json_group_array(json_array(wanted.key, (
    SELECT coalesce(sum(sent.items), 0)
    FROM perdure_stream_heads AS heads
    CROSS JOIN perdure_streams AS sent
    WHERE heads.instance_id = CAST(wanted.value ->> 1 AS TEXT)
      AND heads.part = CAST(wanted.value ->> 0 AS INTEGER)
      AND sent.instance_id = heads.instance_id
      AND sent.stream = heads.stream
      AND sent.token = CAST(wanted.value ->> 2 AS INTEGER)
      AND sent.token <> 0
      AND sent.execution = CAST(wanted.value ->> 3 AS INTEGER)
      AND sent.seq = CAST(wanted.value ->> 4 AS INTEGER)
      AND sent.part = heads.part
)))
FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
WHERE true;
