-- Find transactions of this database that are older than a minute: as long as one of them is open,
-- no row that was removed since is cleaned up.
-- Returns: process, role, application, state, seconds; the oldest first. Of other roles' sessions
-- the age is seen only by members of pg_read_all_stats.
SELECT
    pid,
    usename::text,
    application_name,
    state,
    extract(EPOCH FROM clock_timestamp() - xact_start)::bigint AS age_s
FROM pg_catalog.pg_stat_activity
WHERE datname = current_database()
  AND xact_start < clock_timestamp() - INTERVAL '1 minute'
  AND backend_type = 'client backend'
ORDER BY xact_start
LIMIT 100;
