-- Record a worker's sign of life.
-- Params: worker_id; host; pid; started_ms; seen_ms; definitions. Returns: nothing.
INSERT INTO workers (worker_id, host, pid, started_ms, seen_ms, definitions)
VALUES (:worker_id, :host, :pid, :started_ms, :seen_ms, :definitions)
ON CONFLICT (worker_id) DO UPDATE SET
    host = excluded.host,
    pid = excluded.pid,
    started_ms = excluded.started_ms,
    seen_ms = excluded.seen_ms,
    definitions = excluded.definitions;
