-- Count the tables that are not SQLite's own.
-- Params: none. Returns: the number of all, and of those that only perdure makes.
SELECT count(*), coalesce(sum(name = 'migrations'), 0)
FROM sqlite_schema
WHERE type = 'table'
  AND name NOT LIKE 'sqlite\_%' ESCAPE '\';
