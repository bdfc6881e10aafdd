-- Remove the history of an incarnation that is replaced.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.history
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE history.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND history.instance_id = gone.value ->> 1
  AND history.incarnation = (gone.value ->> 2)::bigint;
