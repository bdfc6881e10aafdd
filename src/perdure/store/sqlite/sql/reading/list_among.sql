-- List or count instances among few: those of some ids, or the children of an instance, or those
-- with an open job of a tag, or those whose ids lie in a range, or those that are alive.
-- Params: one of among (JSON [[part, instance_id], ...]), among_children, among_tagged, among_ids
-- (with ids_end) and among_living (an empty text: yes), the others NULL; parts (JSON [part, ...],
-- all of them); few (nothing is found if there are so many to look at, -1: however many); and those
-- of list_instances, but of definitions NULL means all. Returns: how many were to be looked at, and
-- one JSON text as list_instances.
-- Jobs with a session are in an index of their own. The range of ids is looked for in each part:
-- the part is the first in the key.
WITH chosen AS MATERIALIZED (
    SELECT part, instance_id
    FROM (
        SELECT value ->> 0 AS part, value ->> 1 AS instance_id
        FROM json_each(:among)
        UNION ALL
        SELECT children.part, children.instance_id
        FROM instances AS children INDEXED BY instances_by_parent
        WHERE children.parent_id = :among_children
        UNION ALL
        SELECT jobs.part, jobs.instance_id
        FROM definitions
        CROSS JOIN jobs INDEXED BY jobs_by_time
        WHERE definitions.kind = 'activity'
          AND definitions.variant = :among_tagged
          AND jobs.queue_no = definitions.definition_no
          AND jobs.session IS NULL
        UNION ALL
        SELECT jobs.part, jobs.instance_id
        FROM definitions
        CROSS JOIN jobs INDEXED BY jobs_by_session
        WHERE definitions.kind = 'activity'
          AND definitions.variant = :among_tagged
          AND jobs.queue_no = definitions.definition_no
          AND jobs.session IS NOT NULL
        UNION ALL
        SELECT named.part, named.instance_id
        FROM json_each(:parts) AS parts
        CROSS JOIN instances AS named
        WHERE named.part = parts.value
          AND named.instance_id >= :among_ids
          AND named.instance_id < :ids_end
        UNION ALL
        SELECT live.part, live.instance_id
        FROM json_each(:parts) AS parts
        CROSS JOIN live
        WHERE live.part = parts.value
          AND live.instance_id >= :among_living
          AND live.definition_no IS NOT NULL
    )
    LIMIT :few
)
SELECT
    (SELECT count(*) FROM chosen),
    json_array(
        count(*),
        json_group_array(json_array(created_ms, instance_id)) FILTER (WHERE :is_list)
    )
FROM (
    SELECT instances.created_ms, instances.instance_id
    FROM (
        SELECT DISTINCT part, instance_id
        FROM chosen
        WHERE :few < 0 OR (SELECT count(*) FROM chosen) < :few
    ) AS chosen
    CROSS JOIN instances
    WHERE instances.part = chosen.part
      AND instances.instance_id = chosen.instance_id
      AND (:definitions IS NULL
           OR instances.definition_no IN (SELECT value FROM json_each(:definitions)))
      AND @list_range
      AND @list_conditions
    ORDER BY instances.created_ms DESC, instances.instance_id DESC
    LIMIT :limit
);
