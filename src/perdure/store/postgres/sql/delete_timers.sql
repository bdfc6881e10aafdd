-- Remove timers that fired the short way or were cancelled.
-- Params: keys, JSON [[part, instance_id, timer_key], ...]. Returns: nothing.
-- In order of the key: a claim of jobs removes timers without the lock of their instances.
DELETE FROM perdure.inbox
USING (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2) COLLATE "C" AS timer_key
    FROM jsonb_array_elements(:keys::jsonb)
    ORDER BY 1, 2, 3
) AS gone
WHERE inbox.part = gone.part
  AND inbox.instance_id = gone.instance_id
  AND inbox.timer_key = gone.timer_key;
