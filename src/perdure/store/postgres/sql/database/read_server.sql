-- Return what has to be known of the server before anything else.
-- Params: none. Returns: whether it only reads; the process that serves this connection.
SELECT pg_is_in_recovery(), pg_backend_pid();
