-- Note that sessions are in use, unless their lease has run out.
-- Params: keys, JSON [[part, session], ...]; now_ms. Returns: nothing.
-- In order of the key, so that this never waits for one who waits for this.
-- ANY: see load_live.
UPDATE perdure.sessions
SET used_ms = :now_ms::bigint
FROM (
    SELECT (value ->> 0)::smallint AS part, (value ->> 1) COLLATE "C" AS session
    FROM jsonb_array_elements(:keys::jsonb)
    ORDER BY 1, 2
) AS used
WHERE sessions.part = ANY (ARRAY[used.part])
  AND sessions.session = used.session
  AND sessions.until_ms > :now_ms::bigint;
