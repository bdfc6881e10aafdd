-- Remove the events of executions from the feed, those without a position too.
-- Params: keys, JSON [[part, instance_id, incarnation, execution], ...]. Returns: nothing.
-- Under the lock of lock_feed, or an event that is given its position right now would stay.
WITH unnumbered AS (
    DELETE FROM perdure.feed_new
    USING jsonb_array_elements(:keys::jsonb) AS gone (value)
    WHERE feed_new.instance_id = gone.value ->> 1
      AND feed_new.incarnation = (gone.value ->> 2)::bigint
      AND feed_new.execution = (gone.value ->> 3)::bigint
)
DELETE FROM perdure.feed
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE feed.instance_id = gone.value ->> 1
  AND feed.incarnation = (gone.value ->> 2)::bigint
  AND feed.execution = (gone.value ->> 3)::bigint;
