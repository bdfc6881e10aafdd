-- Read who has which session.
-- Params: none. Returns: one JSON text, [[session, owner, until_ms, used_ms], ...], in any order.
SELECT json_group_array(json_array(session, owner, until_ms, used_ms))
FROM sessions;
