-- Read the wide rows of instances.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: index of the key and the columns.
-- Of an unfinished instance the execution in the live row is right.
SELECT
    wanted.key,
    instances.incarnation,
    coalesce(live.execution, instances.execution),
    definitions.kind,
    definitions.name,
    definitions.variant,
    instances.status,
    instances.input,
    instances.output,
    instances.reason,
    instances.parent_id,
    instances.parent_incarnation,
    instances.created_ms,
    instances.updated_ms,
    instances.ended_ms,
    instances.digest
FROM json_each(:keys) AS wanted
CROSS JOIN instances
CROSS JOIN definitions
LEFT JOIN live
    ON live.part = instances.part
   AND live.instance_id = instances.instance_id
   AND live.incarnation = instances.incarnation
WHERE instances.part = wanted.value ->> 0
  AND instances.instance_id = wanted.value ->> 1
  AND definitions.definition_no = instances.definition_no;
