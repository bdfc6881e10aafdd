-- Record a worker's sign of life.
-- Params: worker_id; host; pid; started_ms; seen_ms; definitions; place; born; lease_ms;
-- is_lasting. Returns: one JSON text, the other workers of its place, [[worker_id, pid, born,
-- lease_ms, is_lasting], ...].
INSERT INTO workers (
    worker_id, host, pid, started_ms, seen_ms, definitions, place, born, lease_ms, is_lasting
)
VALUES (
    :worker_id, :host, :pid, :started_ms, :seen_ms, :definitions, :place, :born, :lease_ms,
    :is_lasting
)
ON CONFLICT (worker_id) DO UPDATE SET
    host = excluded.host,
    pid = excluded.pid,
    started_ms = excluded.started_ms,
    seen_ms = excluded.seen_ms,
    definitions = excluded.definitions,
    place = excluded.place,
    born = excluded.born,
    lease_ms = excluded.lease_ms,
    is_lasting = excluded.is_lasting
RETURNING (
    SELECT json_group_array(json_array(
        other.worker_id, other.pid, other.born, other.lease_ms, other.is_lasting
    ))
    FROM workers AS other
    WHERE other.place = :place
      AND other.place <> ''
      AND other.worker_id <> :worker_id
);
