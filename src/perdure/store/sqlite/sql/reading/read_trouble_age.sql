-- Tell of definitions which of their instances of a status is so many places older than a place.
-- Params: status, and those of read_age: definitions (JSON [definition_no, ...]); before_ms,
-- before_id; from_ms; places. Returns: as read_age.
SELECT json_group_array(json_array(
    wanted.value,
    json((
        SELECT json_array(instances.created_ms, instances.instance_id)
        FROM instances INDEXED BY instances_by_trouble
        WHERE instances.status = :status
          AND instances.status NOT IN ('running', 'completed')
          AND instances.definition_no = wanted.value
          AND @list_range
        ORDER BY instances.created_ms DESC, instances.instance_id DESC
        LIMIT 1 OFFSET :places
    ))
))
FROM json_each(:definitions) AS wanted;
