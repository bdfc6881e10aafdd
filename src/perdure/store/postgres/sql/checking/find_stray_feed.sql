-- Find what a stretch of the feed has of events that are in no history.
-- Params: after, upto (positions). Returns: one JSON text, [[instance_id, execution, seq], ...],
-- in any order.
-- What has no position yet belongs to the first stretch.
SELECT coalesce(
    json_agg(json_build_array(fed.instance_id, fed.execution, fed.seq)), '[]'::json
)
FROM (
    SELECT part, instance_id, incarnation, execution, seq
    FROM perdure.feed
    WHERE feed.pos > :after::bigint
      AND feed.pos <= :upto::bigint
    UNION ALL
    SELECT part, instance_id, incarnation, execution, seq
    FROM perdure.feed_new
    WHERE :after::bigint = 0
) AS fed
WHERE NOT EXISTS (
    SELECT 1
    FROM perdure.history
    WHERE history.part = fed.part
      AND history.instance_id = fed.instance_id
      AND history.incarnation = fed.incarnation
      AND history.execution = fed.execution
      AND history.seq = fed.seq
);
