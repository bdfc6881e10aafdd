-- Remove the events of instances from the feed, those without a position too.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
-- Under the lock of lock_feed, or an event that is given its position right now would stay.
-- ANY: see load_live.
WITH unnumbered AS (
    DELETE FROM perdure.feed_new
    USING jsonb_array_elements(:keys::jsonb) AS gone (value)
    WHERE feed_new.instance_id = ANY (ARRAY[gone.value ->> 1])
)
DELETE FROM perdure.feed
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE feed.instance_id = ANY (ARRAY[gone.value ->> 1]);
