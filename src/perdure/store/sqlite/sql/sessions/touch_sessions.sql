-- Note that sessions are in use, unless their lease has run out.
-- Params: keys, JSON [[part, session], ...]; now_ms. Returns: nothing.
UPDATE sessions
SET used_ms = :now_ms
FROM json_each(:keys) AS used
WHERE sessions.part = used.value ->> 0
  AND sessions.session = used.value ->> 1
  AND sessions.until_ms > :now_ms;
