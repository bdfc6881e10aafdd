-- Remove the events of executions from the feed.
-- Params: keys, JSON [[part, instance_id, incarnation, execution], ...]. Returns: nothing.
DELETE FROM feed
WHERE (instance_id, incarnation, execution) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 2 AS INTEGER),
        CAST(value ->> 3 AS INTEGER)
    FROM (SELECT value FROM json_each(:keys) LIMIT -1)
    WHERE true
);
