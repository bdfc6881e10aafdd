-- Remove the histories of executions.
-- Params: keys, JSON [[part, instance_id, incarnation, execution], ...]. Returns: nothing.
DELETE FROM perdure.history
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE history.part = (gone.value ->> 0)::smallint
  AND history.instance_id = gone.value ->> 1
  AND history.incarnation = (gone.value ->> 2)::bigint
  AND history.execution = (gone.value ->> 3)::bigint;
