-- Read the wide rows of instances.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: index of the key and the columns; the
-- reason as UTF-8.
-- Of an unfinished instance the execution in the live row is right.
-- ANY keeps the keys outside, and definitions inside: see load_live. With `=` PostgreSQL may begin
-- with the definitions and read all their instances.
SELECT
    wanted.position - 1,
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
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.instances
    ON instances.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND instances.instance_id = wanted.value ->> 1
JOIN perdure.definitions
    ON definitions.part = 0
   AND definitions.definition_no = ANY (ARRAY[instances.definition_no])
LEFT JOIN perdure.live
    ON live.part = instances.part
   AND live.instance_id = instances.instance_id
   AND live.incarnation = instances.incarnation;
