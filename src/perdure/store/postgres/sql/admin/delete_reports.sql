-- Remove what instances said of themselves.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.reports
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE reports.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND reports.instance_id = gone.value ->> 1;
