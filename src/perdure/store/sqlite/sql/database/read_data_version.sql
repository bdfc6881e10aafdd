-- Read a number that changes when another connection commits, and not when this one does.
-- Params: none. Returns: one row, the number.
PRAGMA data_version;
