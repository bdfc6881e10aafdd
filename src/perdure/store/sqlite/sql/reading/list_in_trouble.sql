-- List or count instances of one status that few have, newest first.
-- Params: status, and those of list_instances without statuses. Returns: as list_instances.
-- The status is compared twice: the second time lets the partial index be used.
SELECT
    count(*),
    json_group_array(json_array(created_ms, instance_id)) FILTER (WHERE :is_list)
FROM (
    SELECT instances.created_ms, instances.instance_id
    FROM instances INDEXED BY instances_by_trouble
    WHERE instances.status = :status
      AND instances.status NOT IN ('running', 'completed')
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
