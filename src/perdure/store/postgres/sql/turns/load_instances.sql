-- Load what a batch must know of instances that it starts, or that have no live row.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key,
-- incarnation, definition_no], ...].
-- Locked: of an instance that has ended this row stands for it, and two who replace it must not
-- both do so.
-- ANY: see load_live.
WITH locked AS MATERIALIZED (
    SELECT wanted.key, instances.incarnation, instances.definition_no
    FROM (
        SELECT
            position - 1 AS key,
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id
        FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS given (value, position)
    ) AS wanted
    JOIN perdure.instances
        ON instances.part = ANY (ARRAY[wanted.part])
       AND instances.instance_id = wanted.instance_id
    ORDER BY wanted.part, wanted.instance_id
    FOR UPDATE OF instances
)
SELECT coalesce(
    json_agg(json_build_array(key, incarnation, definition_no)),
    '[]'::json
)
FROM locked;
