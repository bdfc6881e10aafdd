-- Find what a stretch of the feed has of events that are in no history.
-- Params: after, upto (positions). Returns: one JSON text, [[instance_id, execution, seq], ...],
-- in any order.
SELECT json_group_array(json_array(feed.instance_id, feed.execution, feed.seq))
FROM feed
WHERE feed.pos > :after
  AND feed.pos <= :upto
  AND NOT EXISTS (
      SELECT 1
      FROM history
      WHERE history.part = feed.part
        AND history.instance_id = feed.instance_id
        AND history.incarnation = feed.incarnation
        AND history.execution = feed.execution
        AND history.seq = feed.seq
  );
