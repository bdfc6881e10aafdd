-- Tell of definitions which of their instances of a status is so many places older than a place.
-- Params: status, and those of read_age: definitions (JSON [definition_no, ...]); before_ms,
-- before_id; from_ms; places. Returns: as read_age.
SELECT coalesce(
    json_agg(json_build_array(
        wanted.definition_no::bigint,
        (
            SELECT json_build_array(instances.created_ms, instances.instance_id)
            FROM perdure.instances
            WHERE instances.status = :status::text
              AND instances.status NOT IN ('running', 'completed')
              AND instances.definition_no = wanted.definition_no::bigint
              AND @list_range
            ORDER BY instances.created_ms DESC, instances.instance_id DESC
            LIMIT 1 OFFSET :places::bigint
        )
    )),
    '[]'::json
)
FROM jsonb_array_elements_text(:definitions::jsonb) AS wanted (definition_no);
