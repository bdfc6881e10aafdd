-- Extend the sessions of an owner that are busy or were used lately. Never shortens and never
-- revives a lease.
-- Params: owner; busy, JSON [session, ...]; now_ms; until_ms; idle_ms (used before: left to run
-- out). Returns: nothing.
UPDATE perdure.sessions
SET until_ms = :until_ms::bigint
WHERE owner = :owner::text
  AND until_ms > :now_ms::bigint
  AND until_ms < :until_ms::bigint
  AND (used_ms >= :idle_ms::bigint
       OR session IN (SELECT value FROM jsonb_array_elements_text(:busy::jsonb)));
