-- List or count instances of definitions and of one status that few have, the newest of each.
-- Params: status, and those of list_instances. Returns: as list_instances.
-- The status is compared twice: the second time lets the partial index be used.
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
            WHERE instances.status = :status::text
              AND instances.status NOT IN ('running', 'completed')
              AND instances.definition_no = wanted.definition_no::bigint
              AND @list_range
            ORDER BY instances.created_ms DESC, instances.instance_id DESC
            LIMIT nullif(:looks::bigint, -1)
        ) AS instances
        WHERE @list_conditions
        LIMIT nullif(:limit::bigint, -1)
    ) AS listed
) AS found;
