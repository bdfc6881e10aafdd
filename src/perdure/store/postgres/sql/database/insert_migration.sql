-- Record a migration.
-- Params: migration_no; name; checksum; now_ms. Returns: nothing.
INSERT INTO perdure.migrations (migration_no, name, checksum, applied_ms)
VALUES (:migration_no::integer, :name::text, :checksum::text, :now_ms::bigint);
