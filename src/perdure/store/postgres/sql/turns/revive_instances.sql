-- Let instances that had ended be running again: what tells of their end goes.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]; now_ms. Returns: nothing.
-- ANY: see load_live.
UPDATE perdure.instances
SET status = 'running',
    ended_ms = NULL,
    digest = NULL,
    reason = NULL,
    output = NULL,
    updated_ms = :now_ms::bigint
FROM jsonb_array_elements(:keys::jsonb) AS revived (value)
WHERE instances.part = ANY (ARRAY[(revived.value ->> 0)::smallint])
  AND instances.instance_id = revived.value ->> 1
  AND instances.incarnation = (revived.value ->> 2)::bigint;
