-- Read the children that have not ended of the live instances of a range of ids, wherever they
-- are.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one).
-- Returns: instance_id, parent_id, parent_incarnation.
SELECT children.instance_id, children.parent_id, children.parent_incarnation
FROM (
    SELECT instance_id
    FROM live
    WHERE @slice_range
) AS parents
CROSS JOIN instances AS children INDEXED BY instances_by_parent
WHERE children.parent_id = parents.instance_id
  AND children.status IN ('running', 'blocked', 'parked');
