-- Tell which attempts have their jobs still, and let those stay until the end of the transaction.
-- Params: leases, JSON [[part, instance_id, incarnation, execution, seq, token], ...].
-- Returns: one JSON text, [index of the lease, ...].
-- KEY SHARE: a job is renewed meanwhile, but not removed, and its instance not deleted.
-- ANY: see load_live.
WITH held AS MATERIALIZED (
    SELECT given.position
    FROM jsonb_array_elements(:leases::jsonb) WITH ORDINALITY AS given (value, position)
    JOIN perdure.jobs
        ON jobs.part = ANY (ARRAY[(given.value ->> 0)::smallint])
       AND jobs.instance_id = given.value ->> 1
       AND jobs.incarnation = (given.value ->> 2)::bigint
       AND jobs.execution = (given.value ->> 3)::bigint
       AND jobs.seq = (given.value ->> 4)::bigint
       AND jobs.token = (given.value ->> 5)::bigint
    WHERE jobs.token <> 0
    FOR KEY SHARE OF jobs
)
SELECT coalesce(json_agg(held.position - 1), '[]'::json)
FROM held;
