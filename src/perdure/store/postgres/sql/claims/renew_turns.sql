-- Extend leases on turns that are still held. Never shortens one and never revives one.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms; until_ms. Returns: nothing.
-- What another transaction has locked is left as it is: the next renewal extends it.
-- ANY: see load_live.
WITH held AS MATERIALIZED (
    SELECT live.part, live.instance_id
    FROM (
        SELECT
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id,
            (value ->> 2)::bigint AS token
        FROM jsonb_array_elements(:leases::jsonb)
    ) AS given
    JOIN perdure.live
        ON live.part = ANY (ARRAY[given.part])
       AND live.instance_id = given.instance_id
       AND live.lease = given.token
    WHERE live.lease <> 0
      AND live.lease_until_ms > :now_ms::bigint
      AND live.lease_until_ms < :until_ms::bigint
    ORDER BY given.part, given.instance_id
    FOR UPDATE OF live SKIP LOCKED
)
UPDATE perdure.live
SET lease_until_ms = :until_ms::bigint,
    wake_at_ms = :until_ms::bigint
FROM held
WHERE live.part = ANY (ARRAY[held.part])
  AND live.instance_id = held.instance_id;
