-- Return a number that differs after another connection has committed.
-- Params: none. Returns: one value.
PRAGMA data_version;
