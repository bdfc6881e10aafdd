-- Remove events of an execution from the feed, up to one.
-- Params: instance_id, incarnation, execution; upto. Returns: nothing.
DELETE FROM feed
WHERE feed.instance_id = :instance_id
  AND feed.incarnation = :incarnation
  AND feed.execution = :execution
  AND feed.seq <= :upto;
