-- Make sessions the claimer's, and use them.
-- Params: keys, JSON [[part, session, owner as seen, until_ms as seen], ...], by the claimer, or
-- NULL; owner; until_ms; now_ms. Returns: nothing.
-- The lease of a session that was the claimer's already is never shortened. The claimer has not
-- locked what it saw, because it looks at very many. A session that is no longer as it was seen is
-- inserted, and that fails: of two workers that want it one gets it (S27), the other looks again.
-- ANY: see load_live; of the owner, so that it is not searched by that.
WITH wanted AS MATERIALIZED (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS session,
        (value ->> 2) COLLATE "C" AS seen_owner,
        (value ->> 3)::bigint AS seen_until_ms
    FROM jsonb_array_elements(:keys::jsonb)
    ORDER BY 1, 2
),
taken AS (
    UPDATE perdure.sessions
    SET owner = :owner::text,
        until_ms = CASE
            WHEN sessions.owner = :owner::text THEN greatest(sessions.until_ms, :until_ms::bigint)
            ELSE :until_ms::bigint
        END,
        used_ms = :now_ms::bigint
    FROM wanted
    WHERE sessions.part = ANY (ARRAY[wanted.part])
      AND sessions.session = wanted.session
      AND wanted.seen_owner = ANY (ARRAY[sessions.owner])
      AND sessions.until_ms = wanted.seen_until_ms
    RETURNING sessions.part, sessions.session
),
fresh AS (
    SELECT part, session FROM wanted
    EXCEPT
    SELECT part, session FROM taken
)
INSERT INTO perdure.sessions (part, session, owner, until_ms, used_ms)
SELECT part, session, :owner::text, :until_ms::bigint, :now_ms::bigint
FROM fresh
ORDER BY part, session;
