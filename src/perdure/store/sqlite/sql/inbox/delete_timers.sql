-- Remove timers that fired the short way or were cancelled.
-- Params: keys, JSON [[part, instance_id, timer_key], ...]. Returns: nothing.
-- Searched for first and removed by their numbers, because a trigger, which this is run in, cannot
-- say which index a DELETE uses. A text column first: without that, SQLite 3.40 searches by `part`
-- alone.
DELETE FROM inbox
WHERE (instance_id, no, part) IN (
    SELECT timer.instance_id, timer.no, timer.part
    FROM (SELECT value FROM json_each(:keys) LIMIT -1) AS gone
    CROSS JOIN inbox AS timer INDEXED BY inbox_by_timer
    WHERE timer.part = gone.value ->> 0
      AND timer.instance_id = gone.value ->> 1
      AND timer.timer_key = gone.value ->> 2
);
