-- Undo the transaction.
-- Params: none. Returns: nothing.
ROLLBACK;
