-- Remove the wide row of an incarnation that is replaced.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.instances
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE instances.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND instances.instance_id = gone.value ->> 1
  AND instances.incarnation = (gone.value ->> 2)::bigint;
