-- List or count instances among few, newest first: those of some ids, or the children of an
-- instance, or those with an open job of a tag.
-- Params: one of among (JSON [[part, instance_id], ...]), among_children and among_tagged, the
-- others NULL; parent_id; tag; and those of list_instances. Returns: as list_instances.
-- Jobs with a session are in an index of their own.
SELECT
    count(*),
    coalesce(
        json_agg(json_build_array(found.created_ms, found.instance_id))
            FILTER (WHERE :is_list::boolean),
        '[]'::json
    )
FROM (
    SELECT instances.created_ms, instances.instance_id
    FROM (
        SELECT (named.value ->> 0)::smallint AS part, named.value ->> 1 AS instance_id
        FROM jsonb_array_elements(:among::jsonb) AS named (value)
        UNION
        SELECT children.part, children.instance_id
        FROM perdure.instances AS children
        WHERE children.parent_id = :among_children::text
        UNION
        SELECT jobs.part, jobs.instance_id
        FROM perdure.definitions
        JOIN perdure.jobs ON jobs.queue_no = definitions.definition_no
        WHERE definitions.part = 0
          AND definitions.kind = 'activity'
          AND definitions.variant = :among_tagged::text
          AND jobs.session IS NULL
        UNION
        SELECT jobs.part, jobs.instance_id
        FROM perdure.definitions
        JOIN perdure.jobs ON jobs.queue_no = definitions.definition_no
        WHERE definitions.part = 0
          AND definitions.kind = 'activity'
          AND definitions.variant = :among_tagged::text
          AND jobs.session IS NOT NULL
    ) AS chosen
    JOIN perdure.instances
        ON instances.part = chosen.part
       AND instances.instance_id = chosen.instance_id
    WHERE (instances.created_ms, instances.instance_id) < (:before_ms::bigint, :before_id::text)
      AND instances.created_ms >= :from_ms::bigint
      AND (:statuses::jsonb IS NULL
           OR instances.status IN (SELECT jsonb_array_elements_text(:statuses::jsonb)))
      AND (:parent_id::text IS NULL OR instances.parent_id = :parent_id::text)
      AND (:tag::text IS NULL OR EXISTS (
          SELECT 1
          FROM perdure.jobs
          JOIN perdure.definitions
              ON definitions.part = 0
             AND definitions.definition_no = jobs.queue_no
          WHERE jobs.part = instances.part
            AND jobs.instance_id = instances.instance_id
            AND jobs.incarnation = instances.incarnation
            AND definitions.variant = :tag::text
      ))
      AND (:definitions::jsonb IS NULL
           OR instances.definition_no IN (
               SELECT wanted.no::bigint
               FROM jsonb_array_elements_text(:definitions::jsonb) AS wanted (no)
           ))
      AND (:id_prefix::text IS NULL OR starts_with(instances.instance_id, :id_prefix::text))
      AND (:ended_before_ms::bigint IS NULL OR instances.ended_ms < :ended_before_ms::bigint)
      AND (NOT :roots_only::boolean OR instances.parent_id IS NULL)
    ORDER BY instances.created_ms DESC, instances.instance_id DESC
    LIMIT nullif(:limit::bigint, -1)
) AS found;
