-- Tell which leases on turns are still held: the token is stored and the time has not run out.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms. Returns: one JSON text,
-- [index of the lease, ...].
-- Locked, so that what is held is still so when it is renewed.
-- ANY: see load_live.
WITH locked AS MATERIALIZED (
    SELECT held.key
    FROM (
        SELECT
            position - 1 AS key,
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id,
            (value ->> 2)::bigint AS token
        FROM jsonb_array_elements(:leases::jsonb) WITH ORDINALITY AS given (value, position)
    ) AS held
    JOIN perdure.live
        ON live.part = ANY (ARRAY[held.part])
       AND live.instance_id = held.instance_id
       AND live.lease = held.token
    WHERE live.lease <> 0
      AND live.lease_until_ms > :now_ms::bigint
    ORDER BY held.part, held.instance_id
    FOR UPDATE OF live
)
SELECT coalesce(json_agg(key), '[]'::json)
FROM locked;
