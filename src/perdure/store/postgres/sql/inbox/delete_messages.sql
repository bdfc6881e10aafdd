-- Remove the messages that turns took.
-- Params: keys, JSON [[part, instance_id, no], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.inbox
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE inbox.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND inbox.instance_id = gone.value ->> 1
  AND inbox.no = (gone.value ->> 2)::bigint;
