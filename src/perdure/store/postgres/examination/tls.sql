-- Tell whether this connection is encrypted.
-- Returns: whether it is; by which version of TLS; nothing if the server does not know.
SELECT ssl, version
FROM pg_catalog.pg_stat_ssl
WHERE pid = pg_catalog.pg_backend_pid();
