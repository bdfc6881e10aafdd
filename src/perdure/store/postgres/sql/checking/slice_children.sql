-- Read the children that have not ended of the live instances of a range of ids, wherever they
-- are.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, parent_id, parent_incarnation.
SELECT children.instance_id, children.parent_id, children.parent_incarnation
FROM (
    SELECT instance_id
    FROM perdure.live
    WHERE @slice_range
) AS parents
JOIN perdure.instances AS children ON children.parent_id = parents.instance_id
WHERE children.status IN ('running', 'blocked', 'parked');
