-- Extend leases on turns that are still held. Never shortens one and never revives one.
-- Params: leases, JSON [[part, instance_id, token], ...]; now_ms; until_ms. Returns: nothing.
-- ANY: see load_live.
UPDATE perdure.live
SET lease_until_ms = :until_ms::bigint,
    wake_at_ms = :until_ms::bigint
FROM jsonb_array_elements(:leases::jsonb) AS held (value)
WHERE live.part = ANY (ARRAY[(held.value ->> 0)::smallint])
  AND live.instance_id = held.value ->> 1
  AND live.lease = (held.value ->> 2)::bigint
  AND live.lease <> 0
  AND live.lease_until_ms > :now_ms::bigint
  AND live.lease_until_ms < :until_ms::bigint;
