-- Tell which leases on turns are still held: the token is stored and the time has not run out.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms. Returns: one JSON text,
-- [index of the lease, ...].
-- Locked, so that what is held is still so when it is renewed.
WITH locked AS MATERIALIZED (
    SELECT held.position - 1 AS key
    FROM jsonb_array_elements(:leases::jsonb) WITH ORDINALITY AS held (value, position)
    JOIN perdure.live
        ON live.part = (held.value ->> 0)::smallint
       AND live.instance_id = held.value ->> 1
       AND live.lease = (held.value ->> 2)::bigint
    WHERE live.lease <> 0
      AND live.lease_until_ms > :now_ms::bigint
    ORDER BY live.part, live.instance_id
    FOR UPDATE OF live
)
SELECT coalesce(json_agg(key), '[]'::json)
FROM locked;
