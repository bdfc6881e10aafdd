-- Tell who has which session.
-- Params: keys, JSON [[part, session], ...]. Returns: one JSON text, [[index of the key, owner,
-- until_ms], ...].
-- ANY: see load_live.
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1, sessions.owner, sessions.until_ms
)), '[]'::json)
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.sessions
    ON sessions.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND sessions.session = wanted.value ->> 1;
