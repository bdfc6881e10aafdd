-- Count the connections of all databases.
-- Returns: one value.
SELECT count(*)
FROM pg_catalog.pg_stat_activity
WHERE backend_type = 'client backend';
