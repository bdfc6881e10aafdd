-- Undo everything since the part began, also after an error. It is still to be ended.
-- Params: none. Returns: nothing.
ROLLBACK TO SAVEPOINT part;
