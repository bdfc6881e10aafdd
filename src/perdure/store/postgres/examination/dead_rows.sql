-- Count rows and those that wait to be cleaned up, in the tables that change most.
-- Returns: table, rows, dead rows, when it was cleaned up last (text).
SELECT
    relname::text,
    n_live_tup,
    n_dead_tup,
    to_char(
        greatest(last_vacuum, last_autovacuum) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS'
    )
FROM pg_catalog.pg_stat_all_tables
WHERE schemaname = :schema::text
  AND relname IN ('live', 'jobs', 'inbox')
ORDER BY relname;
