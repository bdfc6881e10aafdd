-- Find the children of the present incarnations of instances.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[created_ms,
-- instance_id], ...], in any order.
SELECT coalesce(
    json_agg(json_build_array(children.created_ms, children.instance_id)), '[]'::json
)
FROM jsonb_array_elements(:keys::jsonb) AS wanted (value)
JOIN perdure.instances AS parents
    ON parents.part = (wanted.value ->> 0)::smallint
   AND parents.instance_id = wanted.value ->> 1
JOIN perdure.instances AS children
    ON children.parent_id = parents.instance_id
   AND children.parent_incarnation = parents.incarnation;
