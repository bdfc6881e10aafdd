-- Read the whole feed in order, for the checker; last what has no position yet.
-- Params: none. Returns: instance_id, incarnation, execution, seq, tag.
SELECT fed.instance_id, fed.incarnation, fed.execution, fed.seq, fed.tag
FROM (
    SELECT 1 AS stage, pos AS place, instance_id, incarnation, execution, seq, tag
    FROM perdure.feed
    UNION ALL
    SELECT 2, no, instance_id, incarnation, execution, seq, tag
    FROM perdure.feed_new
) AS fed
ORDER BY fed.stage, fed.place;
