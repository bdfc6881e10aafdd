-- Record a worker's sign of life.
-- Params: worker_id; host; pid; started_ms; seen_ms; definitions; place; born; lease_ms;
-- is_lasting. Returns: one JSON text, the other workers of its place, [[worker_id, pid, born,
-- lease_ms, is_lasting], ...].
WITH beaten AS (
    INSERT INTO perdure.workers (
        worker_id, host, pid, started_ms, seen_ms, definitions, place, born, lease_ms, is_lasting
    )
    VALUES (
        :worker_id::text, :host::text, :pid::bigint, :started_ms::bigint, :seen_ms::bigint,
        :definitions::bytea, :place::text, :born::bigint, :lease_ms::bigint, :is_lasting::bigint
    )
    ON CONFLICT (part, worker_id) DO UPDATE SET
        host = excluded.host,
        pid = excluded.pid,
        started_ms = excluded.started_ms,
        seen_ms = excluded.seen_ms,
        definitions = excluded.definitions,
        place = excluded.place,
        born = excluded.born,
        lease_ms = excluded.lease_ms,
        is_lasting = excluded.is_lasting
)
SELECT coalesce(json_agg(json_build_array(
    other.worker_id, other.pid, other.born, other.lease_ms, other.is_lasting
)), '[]'::json)
FROM perdure.workers AS other
WHERE other.place = :place::text
  AND other.place <> ''
  AND other.worker_id <> :worker_id::text;
