-- Find transactions that were prepared for a two-phase commit more than a minute ago: the
-- program that prepared them has forgotten them.
-- Returns: name, role, seconds; the oldest first.
SELECT
    gid,
    owner::text,
    extract(EPOCH FROM clock_timestamp() - prepared)::bigint
FROM pg_catalog.pg_prepared_xacts
WHERE database = current_database()
  AND prepared < clock_timestamp() - INTERVAL '1 minute'
ORDER BY prepared
LIMIT 100;
