-- Change the status of instances that go on: held, or running again.
-- Params: rows, JSON [[part, instance_id, incarnation, status, reason_begin, reason_length], ...];
-- bodies; now_ms. Returns: nothing.
-- ANY: see load_live.
UPDATE perdure.instances
SET status = changed.value ->> 3,
    reason = substr(:bodies::bytea, (changed.value ->> 4)::int, (changed.value ->> 5)::int),
    updated_ms = :now_ms::bigint
FROM jsonb_array_elements(:rows::jsonb) AS changed (value)
WHERE instances.part = ANY (ARRAY[(changed.value ->> 0)::smallint])
  AND instances.instance_id = changed.value ->> 1
  AND instances.incarnation = (changed.value ->> 2)::bigint
  AND instances.ended_ms IS NULL;
