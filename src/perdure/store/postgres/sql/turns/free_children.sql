-- Let the children of an incarnation that is replaced stand for themselves.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: nothing.
-- So an instance with a parent has one that is there, and none is left out of a list of roots. The
-- children's own locks are not taken: nothing else changes these two columns.
-- ANY: see load_live.
UPDATE perdure.instances
SET parent_id = NULL,
    parent_incarnation = NULL
FROM jsonb_array_elements(:keys::jsonb) AS wanted (value)
WHERE instances.parent_id = ANY (ARRAY[wanted.value ->> 1])
  AND instances.parent_incarnation = (wanted.value ->> 2)::bigint;
