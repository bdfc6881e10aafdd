-- List or count instances of definitions, the newest of each.
-- Params: definitions (JSON [definition_no, ...]); looks (how many of each are looked at, -1: all);
-- limit (how many of each are found, -1: all); is_list; before_ms, before_id (only what is older
-- than this place); from_ms; roots_only; and NULL for no such condition: statuses (a JSON list),
-- parent_id, tag, id_prefix, ended_before_ms. Returns: of each definition one JSON text, [how many,
-- if is_list [[created_ms, instance_id], ...]], both in any order.
-- What is looked at is limited inside, in the order of the index, so that conditions few instances
-- meet never lead through all of them. SQLite goes through it row by row and stops at the limit.
SELECT (
    SELECT json_array(
        count(*),
        json_group_array(json_array(created_ms, instance_id)) FILTER (WHERE :is_list)
    )
    FROM (
        SELECT instances.created_ms, instances.instance_id
        FROM (
            SELECT part, instance_id, incarnation, status, created_ms, ended_ms, parent_id
            FROM instances INDEXED BY instances_by_age
            WHERE instances.definition_no = wanted.value
              AND @list_range
            ORDER BY instances.created_ms DESC, instances.instance_id DESC
            LIMIT :looks
        ) AS instances
        WHERE @list_conditions
        LIMIT :limit
    )
)
FROM json_each(:definitions) AS wanted;
