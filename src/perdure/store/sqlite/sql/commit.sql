-- Make the transaction durable.
-- Params: none. Returns: nothing.
COMMIT;
