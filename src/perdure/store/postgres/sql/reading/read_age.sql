-- Tell of definitions which of their instances is so many places older than a place.
-- Params: definitions (JSON [definition_no, ...]); before_ms, before_id (the place); from_ms;
-- places. Returns: one JSON text, [[definition_no, [created_ms, instance_id]], ...], in any order;
-- null instead of the place for one that has not so many.
SELECT coalesce(
    json_agg(json_build_array(
        wanted.definition_no::bigint,
        (
            SELECT json_build_array(instances.created_ms, instances.instance_id)
            FROM perdure.instances
            WHERE instances.definition_no = wanted.definition_no::bigint
              AND @list_range
            ORDER BY instances.created_ms DESC, instances.instance_id DESC
            LIMIT 1 OFFSET :places::bigint
        )
    )),
    '[]'::json
)
FROM jsonb_array_elements_text(:definitions::jsonb) AS wanted (definition_no);
