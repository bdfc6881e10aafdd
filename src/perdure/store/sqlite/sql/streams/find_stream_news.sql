-- Tell in which streams there is something behind an index, or something to be taken back.
-- Params: keys, JSON [[part, instance_id, stream, after_index], ...].
-- Returns: one JSON text, [index of the key, ...].
SELECT json_group_array(wanted.key)
FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
WHERE EXISTS (
        SELECT 1
        FROM perdure_streams AS sent
        WHERE sent.part = wanted.value ->> 0
          AND sent.instance_id = wanted.value ->> 1
          AND sent.stream = wanted.value ->> 2
          AND sent.last_index > wanted.value ->> 3
    )
   OR EXISTS (
        SELECT 1
        FROM perdure_streams AS sent
        WHERE sent.part = wanted.value ->> 0
          AND sent.instance_id = wanted.value ->> 1
          AND sent.stream = wanted.value ->> 2
          AND @is_void
    );
