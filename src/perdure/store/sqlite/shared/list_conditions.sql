-- What listed and counted instances must meet besides, whatever way they were found by.
-- Params: roots_only; and NULL for no such condition: statuses (a JSON list); parent_id; tag;
-- id_prefix; ended_before_ms.
-- What a built-in decider has started is a root of its own.
-- The prefix is compared as a text: no character of it has a meaning of its own.
(:statuses IS NULL
     OR instances.status IN (SELECT value FROM json_each(:statuses)))
AND (:parent_id IS NULL OR instances.parent_id = :parent_id)
AND (NOT :roots_only
     OR instances.parent_id IS NULL
     OR substr(instances.parent_id, 1, 8) = 'perdure.')
AND (:id_prefix IS NULL
     OR substr(instances.instance_id, 1, length(:id_prefix)) = :id_prefix)
AND (:ended_before_ms IS NULL OR instances.ended_ms < :ended_before_ms)
AND (:tag IS NULL OR EXISTS (
    SELECT 1
    FROM jobs
    CROSS JOIN definitions
    WHERE jobs.part = instances.part
      AND jobs.instance_id = instances.instance_id
      AND jobs.incarnation = instances.incarnation
      AND definitions.definition_no = jobs.queue_no
      AND definitions.kind = 'activity'
      AND definitions.variant = :tag
))
