-- How every writing connection behaves.
-- WAL: readers and the writer do not wait for each other.
PRAGMA journal_mode = WAL;
-- FULL: a commit that was acknowledged survives a loss of power.
PRAGMA synchronous = FULL;
-- On macOS a plain fsync leaves it to the disk when to write; elsewhere this says nothing.
PRAGMA fullfsync = ON;
PRAGMA checkpoint_fullfsync = ON;
-- The WAL is copied into the file after so many pages of 4 KiB, and cut back to so many bytes (R5).
PRAGMA wal_autocheckpoint = 4000;
PRAGMA journal_size_limit = 67108864;
-- In KiB. Beyond 2 MB because keys are scattered over the parts.
PRAGMA cache_size = -65536;
PRAGMA temp_store = MEMORY;
PRAGMA foreign_keys = OFF;
-- Some distributions build SQLite with ON, which writes every deleted row once more.
PRAGMA secure_delete = OFF;
PRAGMA trusted_schema = OFF;
