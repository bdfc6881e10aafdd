-- Tell whether the server only reads.
-- Params: none. Returns: one value.
SELECT pg_is_in_recovery();
