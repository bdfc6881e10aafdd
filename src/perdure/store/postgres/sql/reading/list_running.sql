-- List or count running instances, newest first.
-- Params: those of list_instances without statuses. Returns: as list_instances.
-- Reads the live rows, all of them: they are fewer than the instances of a store that has run for
-- a while.
SELECT
    count(*),
    coalesce(
        json_agg(json_build_array(found.created_ms, found.instance_id))
            FILTER (WHERE :is_list::boolean),
        '[]'::json
    )
FROM (
    SELECT instances.created_ms, instances.instance_id
    FROM perdure.live
    JOIN perdure.instances
        ON instances.part = live.part
       AND instances.instance_id = live.instance_id
       AND instances.incarnation = live.incarnation
    WHERE live.definition_no IS NOT NULL
      AND instances.status = 'running'
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
