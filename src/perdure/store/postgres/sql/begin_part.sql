-- Begin a part of a transaction that can be undone by itself.
-- Params: none. Returns: nothing.
SAVEPOINT part;
