-- Read which workers have a lock that lasts as long as their connections, and which are held.
-- Params: none. Returns: one JSON text, [life, [[worker_id, host, pid, started_ms, lease_ms,
-- is_lasting], ...], [mark, ...], [mark that is held, ...]]; life: see read_life.
-- A crash of the server removes all marks together with all locks: see read_mark.
WITH marked AS MATERIALIZED (
    SELECT mark FROM perdure.marks WHERE part > 0::smallint
),
held AS MATERIALIZED (
    SELECT classid::bigint << 32 | objid::bigint AS key
    FROM pg_locks
    WHERE locktype = 'advisory'
      AND objsubid = 1::smallint
      AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT json_build_array(
    floor(extract(EPOCH FROM pg_postmaster_start_time())::numeric * 1000000::numeric)::bigint,
    (
        SELECT coalesce(json_agg(json_build_array(
            worker_id, host, pid, started_ms, lease_ms, is_lasting
        )), '[]'::json)
        FROM perdure.workers
    ),
    (SELECT coalesce(json_agg(mark), '[]'::json) FROM marked),
    (
        SELECT coalesce(json_agg(mark), '[]'::json)
        FROM marked
        WHERE EXISTS (SELECT FROM held WHERE held.key = marked.mark)
    )
);
