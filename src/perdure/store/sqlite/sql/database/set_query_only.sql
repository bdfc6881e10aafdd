-- Let a connection only read.
-- Params: none. Returns: nothing.
PRAGMA query_only = ON;
