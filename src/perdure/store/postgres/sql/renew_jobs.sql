-- Extend leases on jobs that are still held. Never shortens one and never revives one.
-- Params: leases, JSON [[part, instance_id, incarnation, execution, seq, token], ...]; now_ms;
-- until_ms. Returns: nothing.
-- In order of the key, so that this never waits for one who waits for this.
-- ANY: see load_live.
UPDATE perdure.jobs
SET visible_at_ms = :until_ms::bigint
FROM (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS incarnation,
        (value ->> 3)::bigint AS execution,
        (value ->> 4)::bigint AS seq,
        (value ->> 5)::bigint AS token
    FROM jsonb_array_elements(:leases::jsonb)
    ORDER BY 1, 2, 3, 4, 5
) AS held
WHERE jobs.part = ANY (ARRAY[held.part])
  AND jobs.instance_id = held.instance_id
  AND jobs.incarnation = held.incarnation
  AND jobs.execution = held.execution
  AND jobs.seq = held.seq
  AND jobs.token = held.token
  AND jobs.token <> 0
  AND jobs.visible_at_ms > :now_ms::bigint
  AND jobs.visible_at_ms < :until_ms::bigint;
