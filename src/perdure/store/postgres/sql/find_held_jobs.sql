-- Tell which leases on jobs are still held: the token is stored and the time has not run out.
-- Params: leases, JSON [[part, instance_id, incarnation, execution, seq, token], ...]; now_ms.
-- Returns: one JSON text, [[index of the lease, session], ...].
-- Not locked, because it is also asked where nothing is written. A lease that is lost before it is
-- renewed is noticed the next time.
-- ANY: see load_live.
SELECT coalesce(json_agg(json_build_array(held.position - 1, jobs.session)), '[]'::json)
FROM jsonb_array_elements(:leases::jsonb) WITH ORDINALITY AS held (value, position)
JOIN perdure.jobs
    ON jobs.part = ANY (ARRAY[(held.value ->> 0)::smallint])
   AND jobs.instance_id = held.value ->> 1
   AND jobs.incarnation = (held.value ->> 2)::bigint
   AND jobs.execution = (held.value ->> 3)::bigint
   AND jobs.seq = (held.value ->> 4)::bigint
   AND jobs.token = (held.value ->> 5)::bigint
WHERE jobs.token <> 0
  AND jobs.visible_at_ms > :now_ms::bigint;
