-- Tell which leases on turns are still held: the token is stored and the time has not run out.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms. Returns: one JSON text,
-- [index of the lease, ...].
-- Without waiting. One that is past its time still counts as held while another transaction has
-- the row locked, as one of a user's may for long: no worker can take it over meanwhile. One
-- that is lost before it is renewed is noticed the next time.
-- ANY: see load_live.
WITH given AS MATERIALIZED (
    SELECT
        position - 1 AS key,
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS token
    FROM jsonb_array_elements(:leases::jsonb) WITH ORDINALITY AS given (value, position)
),
locked AS MATERIALIZED (
    SELECT given.key
    FROM given
    JOIN perdure.live
        ON live.part = ANY (ARRAY[given.part])
       AND live.instance_id = given.instance_id
       AND live.lease = given.token
    WHERE live.lease_until_ms <= :now_ms::bigint
    ORDER BY given.part, given.instance_id
    FOR UPDATE OF live SKIP LOCKED
)
SELECT coalesce(json_agg(given.key), '[]'::json)
FROM given
JOIN perdure.live
    ON live.part = ANY (ARRAY[given.part])
   AND live.instance_id = given.instance_id
   AND live.lease = given.token
WHERE live.lease <> 0
  AND (live.lease_until_ms > :now_ms::bigint OR given.key NOT IN (SELECT key FROM locked));
