-- Read the settings that matter, as they are for this role and database.
-- Returns: name, value.
SELECT name, setting
FROM pg_catalog.pg_settings
WHERE name IN (
    'server_version', 'fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum',
    'track_counts', 'max_connections', 'superuser_reserved_connections',
    'default_transaction_read_only'
);
