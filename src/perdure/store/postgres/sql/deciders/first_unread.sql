-- Find the first event of an execution that some reader of the feed has not passed.
-- Params: instance_id, incarnation, execution. Returns: one row, seq; null if there is none.
-- Under the lock of lock_feed where it has to stay so. One without a position is unread by all.
SELECT min(unread.seq)
FROM (
    SELECT feed.seq
    FROM perdure.feed
    WHERE feed.instance_id = :instance_id::text
      AND feed.incarnation = :incarnation::bigint
      AND feed.execution = :execution::bigint
      AND feed.pos > (SELECT min(checkpoints.pos) FROM perdure.checkpoints)
    UNION ALL
    SELECT feed_new.seq
    FROM perdure.feed_new
    WHERE feed_new.instance_id = :instance_id::text
      AND feed_new.incarnation = :incarnation::bigint
      AND feed_new.execution = :execution::bigint
      AND EXISTS (SELECT 1 FROM perdure.checkpoints)
) AS unread;
