-- Count the items that attempts have stored and that do not count for good yet.
-- Params: keys, JSON [[part, instance_id, token, execution, seq], ...]. Returns: one JSON text,
-- [[index of the key, items], ...].
-- ANY: see load_live.
SELECT coalesce(json_agg(json_build_array(counted.position - 1, counted.items)), '[]'::json)
FROM (
    SELECT wanted.position, coalesce(sum(sent.items), 0)::bigint AS items
    FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
    LEFT JOIN perdure.perdure_stream_heads AS heads
        ON heads.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
       AND heads.instance_id = wanted.value ->> 1
    LEFT JOIN perdure.perdure_streams AS sent
        ON sent.part = heads.part
       AND sent.instance_id = heads.instance_id
       AND sent.stream = heads.stream
       AND sent.token = (wanted.value ->> 2)::bigint
       AND sent.token <> 0
       AND sent.execution = (wanted.value ->> 3)::bigint
       AND sent.seq = (wanted.value ->> 4)::bigint
    GROUP BY wanted.position
) AS counted;
