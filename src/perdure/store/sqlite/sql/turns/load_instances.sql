-- Load what a batch must know of instances that it starts, or that have no live row.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key,
-- incarnation, definition_no], ...].
SELECT json_group_array(json_array(
    wanted.key, instances.incarnation, instances.definition_no
))
FROM json_each(:keys) AS wanted
CROSS JOIN instances
WHERE instances.part = wanted.value ->> 0
  AND instances.instance_id = wanted.value ->> 1;
