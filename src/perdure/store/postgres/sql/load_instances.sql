-- Load what a batch must know of instances that it starts, or that have no live row.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key,
-- incarnation, last_commit, definition_no], ...].
-- Locked: of an instance that has ended this row stands for it, and two who replace it must not
-- both do so.
WITH locked AS MATERIALIZED (
    SELECT
        wanted.position - 1 AS key, instances.incarnation, instances.last_commit,
        instances.definition_no
    FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
    JOIN perdure.instances
        ON instances.part = (wanted.value ->> 0)::smallint
       AND instances.instance_id = wanted.value ->> 1
    ORDER BY instances.part, instances.instance_id
    FOR UPDATE OF instances
)
SELECT coalesce(
    json_agg(json_build_array(key, incarnation, last_commit, definition_no)),
    '[]'::json
)
FROM locked;
