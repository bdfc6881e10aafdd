-- List or count instances by age, newest first.
-- Params: is_list; limit (-1: all); before_ms, before_id (only what is older than this place);
-- from_ms; and NULL for no such condition: statuses, definitions (JSON lists); id_prefix;
-- ended_before_ms; and roots_only. Returns: how many, and if is_list one JSON text, [[created_ms,
-- instance_id], ...], in any order.
-- One way through the index for lists and counts alike, so that both mean the same. The prefix is
-- compared as a text: no character of it has a meaning of its own.
SELECT
    count(*),
    coalesce(
        json_agg(json_build_array(found.created_ms, found.instance_id))
            FILTER (WHERE :is_list::boolean),
        '[]'::json
    )
FROM (
    SELECT instances.created_ms, instances.instance_id
    FROM perdure.instances
    WHERE (instances.created_ms, instances.instance_id) < (:before_ms::bigint, :before_id::text)
      AND instances.created_ms >= :from_ms::bigint
      AND (:statuses::jsonb IS NULL
           OR instances.status IN (SELECT jsonb_array_elements_text(:statuses::jsonb)))
      AND (:definitions::jsonb IS NULL
           OR instances.definition_no IN (
               SELECT wanted.no::bigint
               FROM jsonb_array_elements_text(:definitions::jsonb) AS wanted (no)
           ))
      AND (:id_prefix::text IS NULL OR starts_with(instances.instance_id, :id_prefix::text))
      AND (:ended_before_ms::bigint IS NULL OR instances.ended_ms < :ended_before_ms::bigint)
      AND (NOT :roots_only::boolean OR instances.parent_id IS NULL)
    ORDER BY instances.created_ms DESC, instances.instance_id DESC
    LIMIT nullif(:limit::bigint, -1)
) AS found;
