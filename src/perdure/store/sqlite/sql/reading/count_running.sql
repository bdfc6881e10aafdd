-- Count running instances.
-- Params: those of list_instances; of them definitions may be NULL: all. Returns: how many.
-- Reads the live rows, all of them: they are fewer than the instances of a store that has run for
-- a while.
SELECT count(*)
FROM live
CROSS JOIN instances
WHERE live.definition_no IS NOT NULL
  AND instances.part = live.part
  AND instances.instance_id = live.instance_id
  AND instances.incarnation = live.incarnation
  AND (:definitions IS NULL
       OR instances.definition_no IN (SELECT value FROM json_each(:definitions)))
  AND @list_range
  AND @list_conditions;
