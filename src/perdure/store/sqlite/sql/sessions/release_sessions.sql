-- Give up all sessions of an owner.
-- Params: owner. Returns: nothing.
DELETE FROM sessions INDEXED BY sessions_by_owner
WHERE owner = :owner;
