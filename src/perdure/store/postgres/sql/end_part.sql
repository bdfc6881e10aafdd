-- End a part of a transaction; what it wrote belongs to the transaction.
-- Params: none. Returns: nothing.
RELEASE SAVEPOINT part;
