-- Extend leases on jobs that are still held. Never shortens one and never revives one.
-- Params: leases, JSON [[part, instance_id, incarnation, execution, seq, token], ...]; now_ms;
-- until_ms. Returns: nothing.
-- What another transaction has locked is left as it is: the next renewal extends it.
-- ANY: see load_live.
WITH held AS MATERIALIZED (
    SELECT jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq
    FROM (
        SELECT
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id,
            (value ->> 2)::bigint AS incarnation,
            (value ->> 3)::bigint AS execution,
            (value ->> 4)::bigint AS seq,
            (value ->> 5)::bigint AS token
        FROM jsonb_array_elements(:leases::jsonb)
    ) AS given
    JOIN perdure.jobs
        ON jobs.part = ANY (ARRAY[given.part])
       AND jobs.instance_id = given.instance_id
       AND jobs.incarnation = given.incarnation
       AND jobs.execution = given.execution
       AND jobs.seq = given.seq
       AND jobs.token = given.token
    WHERE jobs.token <> 0
      AND jobs.visible_at_ms > :now_ms::bigint
      AND jobs.visible_at_ms < :until_ms::bigint
    ORDER BY given.part, given.instance_id, given.incarnation, given.execution, given.seq
    FOR UPDATE OF jobs SKIP LOCKED
)
UPDATE perdure.jobs
SET visible_at_ms = :until_ms::bigint
FROM held
WHERE jobs.part = ANY (ARRAY[held.part])
  AND jobs.instance_id = held.instance_id
  AND jobs.incarnation = held.incarnation
  AND jobs.execution = held.execution
  AND jobs.seq = held.seq;
