-- Read which files a connection has open.
-- Params: none. Returns: a number, the name of the database, the path; the first is the main one.
PRAGMA database_list;
