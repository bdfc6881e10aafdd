-- Extend the sessions of an owner that are busy or were used lately. Never shortens and never
-- revives a lease.
-- Params: owner; busy, JSON [session, ...]; now_ms; until_ms; idle_ms (used before: left to run
-- out). Returns: nothing.
UPDATE sessions INDEXED BY sessions_by_owner
SET until_ms = :until_ms
WHERE owner = :owner
  AND until_ms > :now_ms
  AND until_ms < :until_ms
  AND (used_ms >= :idle_ms OR session IN (SELECT value FROM json_each(:busy)));
