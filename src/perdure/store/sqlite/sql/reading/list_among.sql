-- List or count instances among few, newest first: those of some ids, or the children of an
-- instance, or those with an open job of a tag.
-- Params: one of among (JSON [[part, instance_id], ...]), among_children and among_tagged, the
-- others NULL; parent_id; tag; and those of list_instances. Returns: as list_instances.
-- Jobs with a session are in an index of their own.
SELECT
    count(*),
    json_group_array(json_array(created_ms, instance_id)) FILTER (WHERE :is_list)
FROM (
    SELECT instances.created_ms, instances.instance_id
    FROM (
        SELECT value ->> 0 AS part, value ->> 1 AS instance_id
        FROM json_each(:among)
        UNION
        SELECT children.part, children.instance_id
        FROM instances AS children INDEXED BY instances_by_parent
        WHERE children.parent_id = :among_children
        UNION
        SELECT jobs.part, jobs.instance_id
        FROM definitions
        CROSS JOIN jobs INDEXED BY jobs_by_time
        WHERE definitions.kind = 'activity'
          AND definitions.variant = :among_tagged
          AND jobs.queue_no = definitions.definition_no
          AND jobs.session IS NULL
        UNION
        SELECT jobs.part, jobs.instance_id
        FROM definitions
        CROSS JOIN jobs INDEXED BY jobs_by_session
        WHERE definitions.kind = 'activity'
          AND definitions.variant = :among_tagged
          AND jobs.queue_no = definitions.definition_no
          AND jobs.session IS NOT NULL
    ) AS chosen
    CROSS JOIN instances
    WHERE instances.part = chosen.part
      AND instances.instance_id = chosen.instance_id
      AND (instances.created_ms, instances.instance_id) < (:before_ms, :before_id)
      AND instances.created_ms >= :from_ms
      AND (:statuses IS NULL
           OR instances.status IN (SELECT value FROM json_each(:statuses)))
      AND (:parent_id IS NULL OR instances.parent_id = :parent_id)
      AND (:tag IS NULL OR EXISTS (
          SELECT 1
          FROM jobs
          CROSS JOIN definitions
          WHERE jobs.part = instances.part
            AND jobs.instance_id = instances.instance_id
            AND jobs.incarnation = instances.incarnation
            AND definitions.definition_no = jobs.queue_no
            AND definitions.variant = :tag
      ))
      AND (:definitions IS NULL
           OR instances.definition_no IN (SELECT value FROM json_each(:definitions)))
      AND (:id_prefix IS NULL
           OR substr(instances.instance_id, 1, length(:id_prefix)) = :id_prefix)
      AND (:ended_before_ms IS NULL OR instances.ended_ms < :ended_before_ms)
      AND (NOT :roots_only OR instances.parent_id IS NULL)
    ORDER BY instances.created_ms DESC, instances.instance_id DESC
    LIMIT :limit
);
