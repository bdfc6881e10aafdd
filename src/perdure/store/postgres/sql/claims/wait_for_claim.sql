-- Wait until a claim is over that was made in one call and whose answer was lost.
-- Params: lease. Returns: a row of nothing.
SELECT pg_advisory_xact_lock(:lease::bigint);
