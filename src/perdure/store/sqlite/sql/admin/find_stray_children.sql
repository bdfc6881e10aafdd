-- Find a child of these incarnations that is not among them.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: its instance_id, or no row.
SELECT children.instance_id
FROM json_each(:keys) AS wanted
CROSS JOIN instances AS children INDEXED BY instances_by_parent
WHERE children.parent_id = wanted.value ->> 1
  AND children.parent_incarnation = wanted.value ->> 2
  AND (children.instance_id, children.incarnation) NOT IN (
      SELECT CAST(value ->> 1 AS TEXT), CAST(value ->> 2 AS INTEGER)
      FROM json_each(:keys)
  )
LIMIT 1;
