-- Set the wake-up time of instances to that of their next timer that is really there.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: nothing.
-- The claim of a job removes its owner's timer for a late start, and the owner is not told.
-- ANY: see load_live.
UPDATE perdure.live
SET wake_at_ms = (
    SELECT min(inbox.effective_at_ms)
    FROM perdure.inbox
    WHERE inbox.part = live.part
      AND inbox.instance_id = live.instance_id
      AND inbox.timer_key IS NOT NULL
)
FROM jsonb_array_elements(:keys::jsonb) AS unsure (value)
WHERE live.part = ANY (ARRAY[(unsure.value ->> 0)::smallint])
  AND live.instance_id = unsure.value ->> 1;
