-- Remove the stored states of instances.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
DELETE FROM perdure.snapshots
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE snapshots.part = (gone.value ->> 0)::smallint
  AND snapshots.instance_id = gone.value ->> 1;
