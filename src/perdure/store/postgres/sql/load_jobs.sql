-- Load the jobs whose ends a batch brings.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: one JSON
-- text, [[index of the key, token, attempt, failures in hex, session], ...].
-- Locked: a claim needs no lock of the instance, and could otherwise take a job whose lease has run
-- out while its end is written.
WITH locked AS MATERIALIZED (
    SELECT wanted.position - 1 AS key, jobs.token, jobs.attempt, jobs.failures, jobs.session
    FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
    JOIN perdure.jobs
        ON jobs.part = (wanted.value ->> 0)::smallint
       AND jobs.instance_id = wanted.value ->> 1
       AND jobs.incarnation = (wanted.value ->> 2)::bigint
       AND jobs.execution = (wanted.value ->> 3)::bigint
       AND jobs.seq = (wanted.value ->> 4)::bigint
    ORDER BY jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq
    FOR UPDATE OF jobs
)
SELECT coalesce(
    json_agg(json_build_array(key, token, attempt, encode(failures, 'hex'), session)),
    '[]'::json
)
FROM locked;
