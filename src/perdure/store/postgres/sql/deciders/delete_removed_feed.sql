-- Remove events of an execution from the feed, up to one; those without a position too.
-- Params: instance_id, incarnation, execution; upto. Returns: nothing.
-- Under the lock of lock_feed, or an event that is given its position right now would stay.
WITH unnumbered AS (
    DELETE FROM perdure.feed_new
    WHERE feed_new.instance_id = :instance_id::text
      AND feed_new.incarnation = :incarnation::bigint
      AND feed_new.execution = :execution::bigint
      AND feed_new.seq <= :upto::bigint
)
DELETE FROM perdure.feed
WHERE feed.instance_id = :instance_id::text
  AND feed.incarnation = :incarnation::bigint
  AND feed.execution = :execution::bigint
  AND feed.seq <= :upto::bigint;
