-- Find the first event of an execution that some reader of the feed has not passed.
-- Params: instance_id, incarnation, execution. Returns: one row, seq; null if there is none.
SELECT min(feed.seq)
FROM feed
WHERE feed.instance_id = :instance_id
  AND feed.incarnation = :incarnation
  AND feed.execution = :execution
  AND feed.pos > (SELECT min(checkpoints.pos) FROM checkpoints);
