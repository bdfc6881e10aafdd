-- List or count instances among few: those of some ids, or the children of an instance, or those
-- with an open job of a tag, or those whose ids lie in a range, or those that are alive.
-- Params: one of among (JSON [[part, instance_id], ...]), among_children, among_tagged, among_ids
-- (with ids_end) and among_living (an empty text: yes), the others NULL; parts (JSON [part, ...],
-- all of them); few (nothing is found if there are so many to look at, -1: however many); and those
-- of list_instances, but of definitions NULL means all. Returns: how many were to be looked at, and
-- one JSON text as list_instances.
-- Jobs with a session are in an index of their own. The range of ids is looked for in each part:
-- the part is the first in the key. OFFSET has each part and each instance looked up by itself,
-- whatever else is asked of them; ANY keeps definitions outside: see load_live.
WITH chosen AS MATERIALIZED (
    SELECT one.part, one.instance_id
    FROM (
        SELECT (named.value ->> 0)::smallint AS part, named.value ->> 1 AS instance_id
        FROM jsonb_array_elements(:among::jsonb) AS named (value)
        UNION ALL
        SELECT children.part, children.instance_id
        FROM perdure.instances AS children
        WHERE children.parent_id = :among_children::text
        UNION ALL
        SELECT jobs.part, jobs.instance_id
        FROM perdure.definitions
        JOIN perdure.jobs ON jobs.queue_no = ANY (ARRAY[definitions.definition_no])
        WHERE definitions.part = 0
          AND definitions.kind = 'activity'
          AND definitions.variant = :among_tagged::text
          AND jobs.session IS NULL
        UNION ALL
        SELECT jobs.part, jobs.instance_id
        FROM perdure.definitions
        JOIN perdure.jobs ON jobs.queue_no = ANY (ARRAY[definitions.definition_no])
        WHERE definitions.part = 0
          AND definitions.kind = 'activity'
          AND definitions.variant = :among_tagged::text
          AND jobs.session IS NOT NULL
        UNION ALL
        SELECT named.part, named.instance_id
        FROM jsonb_array_elements_text(:parts::jsonb) AS parts (part)
        CROSS JOIN LATERAL (
            SELECT instances.part, instances.instance_id
            FROM perdure.instances
            WHERE instances.part = parts.part::smallint
              AND instances.instance_id >= :among_ids::text
              AND instances.instance_id < :ids_end::text
            OFFSET 0
        ) AS named
        UNION ALL
        SELECT living.part, living.instance_id
        FROM jsonb_array_elements_text(:parts::jsonb) AS parts (part)
        CROSS JOIN LATERAL (
            SELECT live.part, live.instance_id
            FROM perdure.live
            WHERE live.part = parts.part::smallint
              AND live.instance_id >= :among_living::text
              AND live.definition_no IS NOT NULL
            OFFSET 0
        ) AS living
    ) AS one
    LIMIT nullif(:few::bigint, -1)
)
SELECT
    (SELECT count(*) FROM chosen),
    json_build_array(
        count(*),
        coalesce(
            json_agg(json_build_array(listed.created_ms, listed.instance_id))
                FILTER (WHERE :is_list::boolean),
            '[]'::json
        )
    )
FROM (
    SELECT instances.created_ms, instances.instance_id
    FROM (
        SELECT DISTINCT chosen.part, chosen.instance_id
        FROM chosen
        WHERE :few::bigint < 0 OR (SELECT count(*) FROM chosen) < :few::bigint
    ) AS wanted
    CROSS JOIN LATERAL (
        SELECT
            one.part, one.instance_id, one.incarnation, one.definition_no, one.status,
            one.created_ms, one.ended_ms, one.parent_id
        FROM perdure.instances AS one
        WHERE one.part = wanted.part
          AND one.instance_id = wanted.instance_id
        OFFSET 0
    ) AS instances
    WHERE (:definitions::jsonb IS NULL
           OR instances.definition_no IN (
               SELECT asked.no::bigint
               FROM jsonb_array_elements_text(:definitions::jsonb) AS asked (no)
           ))
      AND @list_range
      AND @list_conditions
    ORDER BY instances.created_ms DESC, instances.instance_id DESC
    LIMIT nullif(:limit::bigint, -1)
) AS listed;
