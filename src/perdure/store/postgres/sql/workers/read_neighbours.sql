-- Read the workers of a place but for one.
-- Params: worker_id; place. Returns: one JSON text, [[worker_id, pid, born, lease_ms, is_lasting],
-- ...].
SELECT coalesce(json_agg(json_build_array(
    other.worker_id, other.pid, other.born, other.lease_ms, other.is_lasting
)), '[]'::json)
FROM perdure.workers AS other
WHERE other.place = :place::text
  AND other.place <> ''
  AND other.worker_id <> :worker_id::text;
