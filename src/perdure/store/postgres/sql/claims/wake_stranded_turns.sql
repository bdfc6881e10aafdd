-- Give instances that were found stranded a time that comes, if they still are as they were.
-- Params: rows, JSON [[part, instance_id, wake_at_ms, lease], ...], as found; now_ms; until_ms
-- (when leases end that their holders do not renew). Returns: nothing.
-- ANY: see load_live.
UPDATE perdure.live
SET wake_at_ms = CASE live.lease WHEN 0 THEN :now_ms::bigint ELSE :until_ms::bigint END,
    lease_until_ms = CASE live.lease WHEN 0 THEN live.lease_until_ms ELSE :until_ms::bigint END
FROM jsonb_array_elements(:rows::jsonb) AS found (value)
WHERE live.part = ANY (ARRAY[(found.value ->> 0)::smallint])
  AND live.instance_id = found.value ->> 1
  AND live.wake_at_ms = (found.value ->> 2)::bigint
  AND live.lease = (found.value ->> 3)::bigint;
