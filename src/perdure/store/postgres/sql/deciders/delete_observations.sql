-- Remove what was observed of inputs of instances.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.observations
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE observations.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND observations.instance_id = gone.value ->> 1;
