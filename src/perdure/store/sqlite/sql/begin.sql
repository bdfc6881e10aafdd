-- Begin a transaction that writes. Taken at once: a read that turns into a write can fail.
-- Params: none. Returns: nothing.
BEGIN IMMEDIATE;
