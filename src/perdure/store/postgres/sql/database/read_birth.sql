-- Tell when the schema was made.
-- Params: none. Returns: milliseconds since the epoch.
SELECT applied_ms
FROM perdure.migrations
WHERE migration_no = 1;
