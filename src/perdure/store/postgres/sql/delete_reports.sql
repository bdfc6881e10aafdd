-- Remove what instances said of themselves.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
DELETE FROM perdure.reports
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE reports.part = (gone.value ->> 0)::smallint
  AND reports.instance_id = gone.value ->> 1;
