-- Find a child of these incarnations that is not among them.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: its instance_id, or no row.
SELECT children.instance_id
FROM jsonb_array_elements(:keys::jsonb) AS wanted (value)
JOIN perdure.instances AS children
    ON children.parent_id = wanted.value ->> 1
   AND children.parent_incarnation = (wanted.value ->> 2)::bigint
WHERE (children.instance_id, children.incarnation) NOT IN (
    SELECT among.value ->> 1, (among.value ->> 2)::bigint
    FROM jsonb_array_elements(:keys::jsonb) AS among (value)
)
LIMIT 1;
