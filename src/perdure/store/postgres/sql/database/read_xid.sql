-- Return the id of the transaction that runs now.
-- Params: none. Returns: one value, as text.
SELECT pg_current_xact_id()::text;
