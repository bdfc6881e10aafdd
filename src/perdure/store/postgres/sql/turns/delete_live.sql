-- Remove the live rows of instances that ended.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.live
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE live.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND live.instance_id = gone.value ->> 1;
