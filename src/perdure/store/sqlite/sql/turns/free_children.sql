-- Let the children of an incarnation that is replaced stand for themselves.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: nothing.
-- So an instance with a parent has one that is there, and none is left out of a list of roots.
UPDATE instances INDEXED BY instances_by_parent
SET parent_id = NULL,
    parent_incarnation = NULL
FROM json_each(:keys) AS wanted
WHERE instances.parent_id = wanted.value ->> 1
  AND instances.parent_incarnation = wanted.value ->> 2;
