-- Read what the server is, and its time.
-- Returns: whether it is a standby; milliseconds since the epoch.
SELECT
    pg_catalog.pg_is_in_recovery(),
    (extract(EPOCH FROM clock_timestamp())::numeric * 1000::numeric)::bigint;
