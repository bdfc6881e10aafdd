-- Remove what is addressed to executions that were followed by the next one: results and timers.
-- Params: keys, JSON [[part, instance_id, incarnation, execution], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.inbox
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE inbox.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND inbox.instance_id = gone.value ->> 1
  AND inbox.execution = (gone.value ->> 3)::bigint;
