-- Tell of definitions which of their instances is so many places older than a place.
-- Params: definitions (JSON [definition_no, ...]); before_ms, before_id (the place); from_ms;
-- places. Returns: one JSON text, [[definition_no, [created_ms, instance_id]], ...], in any order;
-- null instead of the place for one that has not so many.
SELECT json_group_array(json_array(
    wanted.value,
    json((
        SELECT json_array(instances.created_ms, instances.instance_id)
        FROM instances INDEXED BY instances_by_age
        WHERE instances.definition_no = wanted.value
          AND @list_range
        ORDER BY instances.created_ms DESC, instances.instance_id DESC
        LIMIT 1 OFFSET :places
    ))
))
FROM json_each(:definitions) AS wanted;
