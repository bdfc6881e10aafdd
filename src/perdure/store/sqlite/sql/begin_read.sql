-- Begin a transaction that sees one state of the database.
-- Params: none. Returns: nothing.
BEGIN;
