-- Remove all messages and timers of instances that ended.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.inbox
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE inbox.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND inbox.instance_id = gone.value ->> 1;
