-- Tell who has which session.
-- Params: keys, JSON [[part, session], ...]. Returns: one JSON text, [[index of the key, owner,
-- until_ms], ...].
SELECT json_group_array(json_array(wanted.key, sessions.owner, sessions.until_ms))
FROM json_each(:keys) AS wanted
CROSS JOIN sessions
WHERE sessions.part = wanted.value ->> 0
  AND sessions.session = wanted.value ->> 1;
