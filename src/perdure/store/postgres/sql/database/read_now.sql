-- Return the database's time.
-- Params: none. Returns: one value, milliseconds since the epoch.
SELECT floor(extract(EPOCH FROM clock_timestamp())::numeric * 1000::numeric)::bigint;
