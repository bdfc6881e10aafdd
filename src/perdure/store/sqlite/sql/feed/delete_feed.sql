-- Remove the events of instances from the feed.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
DELETE FROM feed
WHERE instance_id IN (
    SELECT CAST(value ->> 1 AS TEXT)
    FROM json_each(:keys)
);
