-- List or count instances of definitions and of one status that few have, the newest of each.
-- Params: status, and those of list_instances. Returns: as list_instances.
SELECT (
    SELECT json_array(
        count(*),
        json_group_array(json_array(created_ms, instance_id)) FILTER (WHERE :is_list)
    )
    FROM (
        SELECT instances.created_ms, instances.instance_id
        FROM (
            SELECT part, instance_id, incarnation, status, created_ms, ended_ms, parent_id
            FROM instances INDEXED BY instances_by_trouble
            WHERE instances.status = :status
              AND instances.status NOT IN ('running', 'completed')
              AND instances.definition_no = wanted.value
              AND @list_range
            ORDER BY instances.created_ms DESC, instances.instance_id DESC
            LIMIT :looks
        ) AS instances
        WHERE @list_conditions
        LIMIT :limit
    )
)
FROM json_each(:definitions) AS wanted;
