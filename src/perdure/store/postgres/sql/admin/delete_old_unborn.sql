-- Remove the rows of unborn ids that were found to be old, if they still are.
-- Params: keys, JSON [[part, instance_id], ...]; before_ms. Returns: part, instance_id of each.
DELETE FROM perdure.live
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE live.part = (gone.value ->> 0)::smallint
  AND live.instance_id = gone.value ->> 1
  AND live.definition_no IS NULL
  AND live.last_at_ms < :before_ms::bigint
RETURNING live.part, live.instance_id;
