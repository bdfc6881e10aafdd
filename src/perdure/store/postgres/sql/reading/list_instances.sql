-- List or count instances of definitions, the newest of each.
-- Params: definitions (JSON [definition_no, ...]); looks (how many of each are looked at, -1: all);
-- limit (how many of each are found, -1: all); is_list; before_ms, before_id (only what is older
-- than this place); from_ms; roots_only; and NULL for no such condition: statuses (a JSON list),
-- parent_id, tag, id_prefix, ended_before_ms. Returns: of each definition one JSON text, [how many,
-- if is_list [[created_ms, instance_id], ...]], both in any order.
-- What is looked at is limited inside, in the order of the index, so that conditions few instances
-- meet never lead through all of them.
SELECT found.places
FROM jsonb_array_elements_text(:definitions::jsonb) AS wanted (definition_no)
CROSS JOIN LATERAL (
    SELECT json_build_array(
        count(*),
        coalesce(
            json_agg(json_build_array(listed.created_ms, listed.instance_id))
                FILTER (WHERE :is_list::boolean),
            '[]'::json
        )
    ) AS places
    FROM (
        SELECT instances.created_ms, instances.instance_id
        FROM (
            SELECT part, instance_id, incarnation, status, created_ms, ended_ms, parent_id
            FROM perdure.instances
            WHERE instances.definition_no = wanted.definition_no::bigint
              AND @list_range
            ORDER BY instances.created_ms DESC, instances.instance_id DESC
            LIMIT nullif(:looks::bigint, -1)
        ) AS instances
        WHERE @list_conditions
        LIMIT nullif(:limit::bigint, -1)
    ) AS listed
) AS found;
