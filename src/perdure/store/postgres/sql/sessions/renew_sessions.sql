-- Extend the sessions of an owner that are busy or were used lately. Never shortens and never
-- revives a lease.
-- Params: owner; busy, JSON [session, ...]; now_ms; until_ms; idle_ms (used before: left to run
-- out). Returns: nothing.
-- What another transaction has locked is left as it is: the next renewal extends it.
WITH held AS MATERIALIZED (
    SELECT sessions.part, sessions.session
    FROM perdure.sessions
    WHERE sessions.owner = :owner::text
      AND sessions.until_ms > :now_ms::bigint
      AND sessions.until_ms < :until_ms::bigint
      AND (sessions.used_ms >= :idle_ms::bigint
           OR sessions.session IN (SELECT value FROM jsonb_array_elements_text(:busy::jsonb)))
    ORDER BY sessions.part, sessions.session
    FOR UPDATE SKIP LOCKED
)
UPDATE perdure.sessions
SET until_ms = :until_ms::bigint
FROM held
WHERE sessions.part = held.part
  AND sessions.session = held.session;
