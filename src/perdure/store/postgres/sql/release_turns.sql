-- Give back turns that were claimed and not worked on; the attempt does not count.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms. Returns: nothing.
-- In order of the key, so that this never waits for one who waits for this.
-- ANY: see load_live.
UPDATE perdure.live
SET lease = 0,
    lease_until_ms = 0,
    wake_at_ms = :now_ms::bigint,
    attempts = greatest(live.attempts - 1, 0)
FROM (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS token
    FROM jsonb_array_elements(:leases::jsonb)
    ORDER BY 1, 2
) AS held
WHERE live.part = ANY (ARRAY[held.part])
  AND live.instance_id = held.instance_id
  AND live.lease = held.token
  AND live.lease <> 0;
