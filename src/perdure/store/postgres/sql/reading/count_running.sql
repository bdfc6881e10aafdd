-- Count running instances.
-- Params: those of list_instances; of them definitions may be NULL: all. Returns: how many.
-- Reads the live rows, all of them: they are fewer than the instances of a store that has run for
-- a while.
SELECT count(*)
FROM perdure.live
JOIN perdure.instances
    ON instances.part = live.part
   AND instances.instance_id = live.instance_id
   AND instances.incarnation = live.incarnation
WHERE live.definition_no IS NOT NULL
  AND (:definitions::jsonb IS NULL
       OR instances.definition_no IN (
           SELECT wanted.no::bigint
           FROM jsonb_array_elements_text(:definitions::jsonb) AS wanted (no)
       ))
  AND @list_range
  AND @list_conditions;
