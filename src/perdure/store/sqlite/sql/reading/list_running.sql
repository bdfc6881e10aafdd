-- List or count running instances, newest first.
-- Params: those of list_instances without statuses. Returns: as list_instances.
-- Reads the live rows, all of them: they are fewer than the instances of a store that has run for
-- a while.
SELECT
    count(*),
    json_group_array(json_array(created_ms, instance_id)) FILTER (WHERE :is_list)
FROM (
    SELECT instances.created_ms, instances.instance_id
    FROM live
    CROSS JOIN instances
    WHERE live.definition_no IS NOT NULL
      AND instances.part = live.part
      AND instances.instance_id = live.instance_id
      AND instances.incarnation = live.incarnation
      AND instances.status = 'running'
      AND (instances.created_ms, instances.instance_id) < (:before_ms, :before_id)
      AND instances.created_ms >= :from_ms
      AND (:definitions IS NULL
           OR instances.definition_no IN (SELECT value FROM json_each(:definitions)))
      AND (:id_prefix IS NULL
           OR substr(instances.instance_id, 1, length(:id_prefix)) = :id_prefix)
      AND (:ended_before_ms IS NULL OR instances.ended_ms < :ended_before_ms)
      AND (NOT :roots_only OR instances.parent_id IS NULL)
    ORDER BY instances.created_ms DESC, instances.instance_id DESC
    LIMIT :limit
);
