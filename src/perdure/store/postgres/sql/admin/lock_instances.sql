-- Lock the wide rows of instances.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: a row for each that is there.
-- A start locks the row of whom it would replace, so an ended instance, which has no live row, can
-- be kept from being replaced in this way. In order of the keys: two that lock do not entangle.
SELECT 1
FROM jsonb_array_elements(:keys::jsonb) AS wanted (value)
JOIN perdure.instances
    ON instances.part = (wanted.value ->> 0)::smallint
   AND instances.instance_id = wanted.value ->> 1
ORDER BY instances.part, instances.instance_id
FOR UPDATE OF instances;
