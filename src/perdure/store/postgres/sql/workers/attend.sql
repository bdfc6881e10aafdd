-- Hold a worker's lock as long as this connection lasts.
-- Params: key, the lock; pid, the process that serves this connection as its greeting has said.
-- Returns: one row if it is held, or none.
-- Another process answers than the one that greeted us if a pooler is between: what is held then is
-- not ours. One who frees what the worker had is waited for.
SELECT pg_advisory_lock_shared(:key::bigint)
WHERE pg_backend_pid() = :pid::integer;
