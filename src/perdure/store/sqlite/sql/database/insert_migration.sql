-- Record that a migration was applied.
-- Params: migration_no; name; checksum; now_ms. Returns: nothing.
INSERT INTO migrations (migration_no, name, checksum, applied_ms)
VALUES (:migration_no, :name, :checksum, :now_ms);
