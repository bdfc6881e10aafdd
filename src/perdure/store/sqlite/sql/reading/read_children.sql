-- Find the children of the present incarnations of instances.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[created_ms,
-- instance_id], ...], in any order.
SELECT json_group_array(json_array(children.created_ms, children.instance_id))
FROM (SELECT value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN instances AS parents
CROSS JOIN instances AS children INDEXED BY instances_by_parent
WHERE parents.part = wanted.value ->> 0
  AND parents.instance_id = wanted.value ->> 1
  AND children.parent_id = parents.instance_id
  AND children.parent_incarnation = parents.incarnation;
