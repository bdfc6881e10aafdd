-- Remove messages that are no longer on their way.
-- Params: keys, JSON [[part, no], ...]. Returns: no, of those that were still there.
-- ANY: see load_live.
DELETE FROM perdure.arrivals
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE arrivals.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND arrivals.no = (gone.value ->> 1)::bigint
RETURNING arrivals.no;
