-- Read which migrations were applied.
-- Params: none. Returns: migration_no, name, checksum.
SELECT migration_no, name, checksum
FROM migrations
ORDER BY migration_no;
