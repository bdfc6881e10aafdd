-- Read what the feed has of instances, in order; last what has no position yet.
-- Params: keys (JSON [[part, instance_id], ...]). Returns: instance_id, incarnation, execution,
-- seq, tag.
SELECT fed.instance_id, fed.incarnation, fed.execution, fed.seq, fed.tag
FROM jsonb_array_elements(:keys::jsonb) AS wanted (value)
CROSS JOIN LATERAL (
    SELECT 1 AS stage, pos AS place, instance_id, incarnation, execution, seq, tag
    FROM perdure.feed
    WHERE feed.instance_id = wanted.value ->> 1
    UNION ALL
    SELECT 2, no, instance_id, incarnation, execution, seq, tag
    FROM perdure.feed_new
    WHERE feed_new.instance_id = wanted.value ->> 1
) AS fed
ORDER BY fed.stage, fed.place;
