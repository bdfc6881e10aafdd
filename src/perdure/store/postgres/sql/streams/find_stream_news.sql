-- Tell in which streams there is something behind an index, or something to be taken back.
-- Params: keys, JSON [[part, instance_id, stream, after_index], ...].
-- Returns: one JSON text, [index of the key, ...].
SELECT coalesce(json_agg(wanted.position - 1), '[]'::json)
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
WHERE EXISTS (
        SELECT 1
        FROM perdure.perdure_streams AS sent
        WHERE sent.part = (wanted.value ->> 0)::smallint
          AND sent.instance_id = wanted.value ->> 1
          AND sent.stream = wanted.value ->> 2
          AND sent.last_index > (wanted.value ->> 3)::bigint
    )
   OR EXISTS (
        SELECT 1
        FROM perdure.perdure_streams AS sent
        WHERE sent.part = (wanted.value ->> 0)::smallint
          AND sent.instance_id = wanted.value ->> 1
          AND sent.stream = wanted.value ->> 2
          AND @is_void
    );
