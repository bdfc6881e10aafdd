-- Read who has which session.
-- Params: none. Returns: one JSON text, [[session, owner, until_ms, used_ms], ...], in any order.
SELECT coalesce(json_agg(json_build_array(session, owner, until_ms, used_ms)), '[]'::json)
FROM perdure.sessions;
