-- Make sessions the claimer's, and use them.
-- Params: keys, JSON [[part, session, ...], ...]; owner; until_ms; now_ms. Returns: nothing.
-- The lease of a session that was the claimer's already is never shortened.
INSERT INTO sessions (part, session, owner, until_ms, used_ms)
SELECT value ->> 0, value ->> 1, :owner, :until_ms, :now_ms
FROM json_each(:keys)
WHERE true
ON CONFLICT (part, session) DO UPDATE SET
    until_ms = iif(
        sessions.owner = excluded.owner,
        max(sessions.until_ms, excluded.until_ms),
        excluded.until_ms
    ),
    owner = excluded.owner,
    used_ms = excluded.used_ms;
