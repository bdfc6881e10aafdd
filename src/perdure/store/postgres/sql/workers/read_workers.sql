-- Read the workers that gave a sign of life since a time.
-- Params: seen_since_ms. Returns: worker_id, host, pid, started_ms, seen_ms, definitions,
-- place, born, lease_ms, is_lasting.
SELECT
    worker_id, host, pid, started_ms, seen_ms, definitions, place, born, lease_ms, is_lasting
FROM perdure.workers
WHERE seen_ms >= :seen_since_ms::bigint
ORDER BY worker_id;
