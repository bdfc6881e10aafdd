-- Tell which leases on jobs are still held: the token is stored and the time has not run out.
-- Params: leases, JSON [[part, instance_id, incarnation, execution, seq, token], ...]; now_ms.
-- Returns: one JSON text, [[index of the lease, session], ...].
-- What is past its time and locked by another transaction counts as held: see find_held_turns.
-- ANY: see load_live.
WITH given AS MATERIALIZED (
    SELECT
        position - 1 AS key,
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS incarnation,
        (value ->> 3)::bigint AS execution,
        (value ->> 4)::bigint AS seq,
        (value ->> 5)::bigint AS token
    FROM jsonb_array_elements(:leases::jsonb) WITH ORDINALITY AS given (value, position)
),
locked AS MATERIALIZED (
    SELECT given.key
    FROM given
    JOIN perdure.jobs
        ON jobs.part = ANY (ARRAY[given.part])
       AND jobs.instance_id = given.instance_id
       AND jobs.incarnation = given.incarnation
       AND jobs.execution = given.execution
       AND jobs.seq = given.seq
       AND jobs.token = given.token
    WHERE jobs.visible_at_ms <= :now_ms::bigint
    ORDER BY given.part, given.instance_id, given.incarnation, given.execution, given.seq
    FOR UPDATE OF jobs SKIP LOCKED
)
SELECT coalesce(json_agg(json_build_array(given.key, jobs.session)), '[]'::json)
FROM given
JOIN perdure.jobs
    ON jobs.part = ANY (ARRAY[given.part])
   AND jobs.instance_id = given.instance_id
   AND jobs.incarnation = given.incarnation
   AND jobs.execution = given.execution
   AND jobs.seq = given.seq
   AND jobs.token = given.token
WHERE jobs.token <> 0
  AND (jobs.visible_at_ms > :now_ms::bigint OR given.key NOT IN (SELECT key FROM locked));
