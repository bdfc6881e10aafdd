-- Remove jobs that are done or cancelled.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: nothing.
-- In order of the key, as renewals of leases, which come without the locks of instances.
-- ANY: see load_live.
DELETE FROM perdure.jobs
USING (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS incarnation,
        (value ->> 3)::bigint AS execution,
        (value ->> 4)::bigint AS seq
    FROM jsonb_array_elements(:keys::jsonb)
    ORDER BY 1, 2, 3, 4, 5
) AS gone
WHERE jobs.part = ANY (ARRAY[gone.part])
  AND jobs.instance_id = gone.instance_id
  AND jobs.incarnation = gone.incarnation
  AND jobs.execution = gone.execution
  AND jobs.seq = gone.seq;
