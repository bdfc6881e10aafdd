-- Give back turns that were claimed and not worked on; the attempt does not count.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms. Returns: a row for each that
-- another transaction has locked, and that is as it was.
-- ANY: see load_live.
WITH given AS MATERIALIZED (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS token
    FROM jsonb_array_elements(:leases::jsonb)
),
held AS MATERIALIZED (
    SELECT live.part, live.instance_id
    FROM given
    JOIN perdure.live
        ON live.part = ANY (ARRAY[given.part])
       AND live.instance_id = given.instance_id
       AND live.lease = given.token
    WHERE live.lease <> 0
    ORDER BY given.part, given.instance_id
    FOR UPDATE OF live SKIP LOCKED
),
released AS (
    UPDATE perdure.live
    SET lease = 0,
        lease_until_ms = 0,
        wake_at_ms = :now_ms::bigint,
        attempts = greatest(live.attempts - 1, 0)
    FROM held
    WHERE live.part = ANY (ARRAY[held.part])
      AND live.instance_id = held.instance_id
)
SELECT 1
FROM (
    SELECT given.part, given.instance_id, given.token
    FROM given
    WHERE NOT EXISTS (
        SELECT FROM held WHERE held.part = given.part AND held.instance_id = given.instance_id
    )
    OFFSET 0
) AS kept
JOIN perdure.live
    ON live.part = ANY (ARRAY[kept.part])
   AND live.instance_id = kept.instance_id
   AND live.lease = kept.token
WHERE live.lease <> 0;
