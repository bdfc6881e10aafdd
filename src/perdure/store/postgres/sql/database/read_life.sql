-- Return when the server was started: no lock of a session is older.
-- Params: none. Returns: one value, microseconds since the epoch.
SELECT floor(extract(EPOCH FROM pg_postmaster_start_time())::numeric * 1000000::numeric)::bigint;
