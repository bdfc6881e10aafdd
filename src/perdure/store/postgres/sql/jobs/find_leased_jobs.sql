-- Tell which leases on jobs were not ended or taken over, whether their time has run out or not.
-- Params: leases, JSON [[part, instance_id, incarnation, execution, seq, token], ...].
-- Returns: one JSON text, [index of the lease, ...].
-- Not locked, because it is asked where nothing is written.
-- ANY: see load_live.
SELECT coalesce(json_agg(held.position - 1), '[]'::json)
FROM jsonb_array_elements(:leases::jsonb) WITH ORDINALITY AS held (value, position)
JOIN perdure.jobs
    ON jobs.part = ANY (ARRAY[(held.value ->> 0)::smallint])
   AND jobs.instance_id = held.value ->> 1
   AND jobs.incarnation = (held.value ->> 2)::bigint
   AND jobs.execution = (held.value ->> 3)::bigint
   AND jobs.seq = (held.value ->> 4)::bigint
   AND jobs.token = (held.value ->> 5)::bigint
WHERE jobs.token <> 0;
