-- Tell other processes that something was committed, as soon as this transaction is.
-- Params: channel; hint, what it was. Returns: the transaction's id, as text.
SELECT pg_current_xact_id()::text
FROM pg_notify(:channel::text, :hint::text);
