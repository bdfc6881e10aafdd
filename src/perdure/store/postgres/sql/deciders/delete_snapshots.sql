-- Remove the stored states of instances.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.snapshots
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE snapshots.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND snapshots.instance_id = gone.value ->> 1;
