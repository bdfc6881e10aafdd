-- Read what the feed has of instances, in order.
-- Params: keys (JSON [[part, instance_id], ...]). Returns: instance_id, incarnation, execution,
-- seq, tag.
SELECT feed.instance_id, feed.incarnation, feed.execution, feed.seq, feed.tag
FROM json_each(:keys) AS wanted
CROSS JOIN feed INDEXED BY feed_by_instance
WHERE feed.instance_id = wanted.value ->> 1
ORDER BY feed.pos;
