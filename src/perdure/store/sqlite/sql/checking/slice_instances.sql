-- Read the wide rows of a range of ids.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one); with_payloads
-- (or inputs without a byte and no outputs). Returns: instance_id and the columns of
-- read_instances.
-- Of an unfinished instance the execution in the live row is right.
SELECT
    instances.instance_id,
    instances.incarnation,
    coalesce(live.execution, instances.execution),
    definitions.kind,
    definitions.name,
    definitions.variant,
    instances.status,
    CASE WHEN :with_payloads THEN instances.input ELSE x'' END,
    CASE WHEN :with_payloads THEN instances.output END,
    instances.reason,
    instances.parent_id,
    instances.parent_incarnation,
    instances.created_ms,
    instances.updated_ms,
    instances.ended_ms,
    instances.digest
FROM (
    SELECT *
    FROM instances
    WHERE @slice_range
) AS instances
CROSS JOIN definitions
LEFT JOIN live
    ON live.part = instances.part
   AND live.instance_id = instances.instance_id
   AND live.incarnation = instances.incarnation
WHERE definitions.definition_no = instances.definition_no
ORDER BY instances.part, instances.instance_id;
