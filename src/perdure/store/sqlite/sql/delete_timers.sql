-- Remove timers that fired the short way or were cancelled.
-- Params: keys, JSON [[part, instance_id, timer_key], ...]. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM inbox INDEXED BY inbox_by_timer
WHERE (instance_id, timer_key, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 2 AS TEXT),
        CAST(value ->> 0 AS INTEGER)
    FROM json_each(:keys)
)
  AND timer_key IS NOT NULL;
