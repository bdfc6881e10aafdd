-- Read the wide rows of a range of ids.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one); with_payloads
-- (or inputs without a byte and no outputs). Returns: instance_id and the columns of
-- read_instances.
-- Of an unfinished instance the execution in the live row is right.
-- ANY keeps definitions inside: see read_instances.
SELECT
    instances.instance_id,
    instances.incarnation,
    coalesce(live.execution, instances.execution),
    definitions.kind,
    definitions.name,
    definitions.variant,
    instances.status,
    CASE WHEN :with_payloads::boolean THEN instances.input ELSE ''::bytea END,
    CASE WHEN :with_payloads::boolean THEN instances.output END,
    instances.reason,
    instances.parent_id,
    instances.parent_incarnation,
    instances.created_ms,
    instances.updated_ms,
    instances.ended_ms,
    instances.digest
FROM (
    SELECT *
    FROM perdure.instances
    WHERE @slice_range
) AS instances
JOIN perdure.definitions
    ON definitions.part = 0
   AND definitions.definition_no = ANY (ARRAY[instances.definition_no])
LEFT JOIN perdure.live
    ON live.part = instances.part
   AND live.instance_id = instances.instance_id
   AND live.incarnation = instances.incarnation
ORDER BY instances.part, instances.instance_id;
