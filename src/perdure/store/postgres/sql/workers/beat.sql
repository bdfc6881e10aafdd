-- Record a worker's sign of life.
-- Params: worker_id; host; pid; started_ms; seen_ms; definitions. Returns: nothing.
INSERT INTO perdure.workers (worker_id, host, pid, started_ms, seen_ms, definitions)
VALUES (
    :worker_id::text, :host::text, :pid::bigint, :started_ms::bigint, :seen_ms::bigint,
    :definitions::bytea
)
ON CONFLICT (part, worker_id) DO UPDATE SET
    host = excluded.host,
    pid = excluded.pid,
    started_ms = excluded.started_ms,
    seen_ms = excluded.seen_ms,
    definitions = excluded.definitions;
