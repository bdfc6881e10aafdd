-- Undo everything since the part began. It is still to be ended.
-- Params: none. Returns: nothing.
ROLLBACK TO part;
