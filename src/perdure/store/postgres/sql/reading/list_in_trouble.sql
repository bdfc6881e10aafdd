-- List or count instances of one status that few have, newest first.
-- Params: status, and those of list_instances without statuses. Returns: as list_instances.
-- The status is compared twice: the second time lets the partial index be used.
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
    WHERE instances.status = :status::text
      AND instances.status NOT IN ('running', 'completed')
      AND (instances.created_ms, instances.instance_id) < (:before_ms::bigint, :before_id::text)
      AND instances.created_ms >= :from_ms::bigint
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
