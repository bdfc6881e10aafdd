-- Remove timers that fired the short way or were cancelled.
-- Params: keys, JSON [[part, instance_id, timer_key], ...]. Returns: nothing.
-- In order of the key: a claim of jobs removes timers without the lock of their instances.
-- Found first and removed by their places, which never change: so the index of timers is searched
-- and not walked through, whatever the statistics say.
DELETE FROM perdure.inbox
USING (
    SELECT timer.place
    FROM (
        SELECT
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id,
            (value ->> 2) COLLATE "C" AS timer_key
        FROM jsonb_array_elements(:keys::jsonb)
        ORDER BY 1, 2, 3
    ) AS wanted
    CROSS JOIN LATERAL (
        SELECT inbox.ctid AS place
        FROM perdure.inbox
        WHERE inbox.part = wanted.part
          AND inbox.instance_id = wanted.instance_id
          AND inbox.timer_key = wanted.timer_key
        OFFSET 0
    ) AS timer
) AS gone
WHERE inbox.ctid = gone.place;
