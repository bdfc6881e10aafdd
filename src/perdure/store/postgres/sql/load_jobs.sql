-- Load the jobs that a batch ends.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: one JSON
-- text, [[index of the key, token, attempt, failures in hex, session], ...].
-- Locked: a claim needs no lock of the instance, and could otherwise take a job whose lease has run
-- out while its end is written.
-- ANY: see load_live.
WITH locked AS MATERIALIZED (
    SELECT wanted.key, jobs.token, jobs.attempt, jobs.failures, jobs.session
    FROM (
        SELECT
            position - 1 AS key,
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id,
            (value ->> 2)::bigint AS incarnation,
            (value ->> 3)::bigint AS execution,
            (value ->> 4)::bigint AS seq
        FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS given (value, position)
    ) AS wanted
    JOIN perdure.jobs
        ON jobs.part = ANY (ARRAY[wanted.part])
       AND jobs.instance_id = wanted.instance_id
       AND jobs.incarnation = wanted.incarnation
       AND jobs.execution = wanted.execution
       AND jobs.seq = wanted.seq
    ORDER BY
        wanted.part, wanted.instance_id, wanted.incarnation, wanted.execution, wanted.seq
    FOR UPDATE OF jobs
)
SELECT coalesce(
    json_agg(json_build_array(key, token, attempt, encode(failures, 'hex'), session)),
    '[]'::json
)
FROM locked;
