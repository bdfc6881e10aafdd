-- List or count instances by age, newest first.
-- Params: is_list; limit (-1: all); before_ms, before_id (only what is older than this place);
-- from_ms; and NULL for no such condition: statuses, definitions (JSON lists); id_prefix;
-- ended_before_ms; and roots_only. Returns: how many, and if is_list one JSON text, [[created_ms,
-- instance_id], ...], in any order.
-- One way through the index for lists and counts alike, so that both mean the same. The prefix is
-- compared as a text: no character of it has a meaning of its own.
SELECT
    count(*),
    json_group_array(json_array(created_ms, instance_id)) FILTER (WHERE :is_list)
FROM (
    SELECT instances.created_ms, instances.instance_id
    FROM instances INDEXED BY instances_by_age
    WHERE (instances.created_ms, instances.instance_id) < (:before_ms, :before_id)
      AND instances.created_ms >= :from_ms
      AND (:statuses IS NULL
           OR instances.status IN (SELECT value FROM json_each(:statuses)))
      AND (:definitions IS NULL
           OR instances.definition_no IN (SELECT value FROM json_each(:definitions)))
      AND (:id_prefix IS NULL
           OR substr(instances.instance_id, 1, length(:id_prefix)) = :id_prefix)
      AND (:ended_before_ms IS NULL OR instances.ended_ms < :ended_before_ms)
      AND (NOT :roots_only OR instances.parent_id IS NULL)
    ORDER BY instances.created_ms DESC, instances.instance_id DESC
    LIMIT :limit
);
