-- What listed and counted instances must meet besides, whatever way they were found by.
-- Params: roots_only; and NULL for no such condition: statuses (a JSON list); parent_id; tag;
-- id_prefix; ended_before_ms.
-- What a built-in decider has started is a root of its own. (In two pieces: the name of the schema
-- is put where ours stands before a dot.)
-- The prefix is compared as a text: no character of it has a meaning of its own. With `=` for the
-- part, PostgreSQL may read all jobs once to have them at hand; ANY has it look up each instance's.
(:statuses::jsonb IS NULL
     OR instances.status IN (SELECT jsonb_array_elements_text(:statuses::jsonb)))
AND (:parent_id::text IS NULL OR instances.parent_id = :parent_id::text)
AND (NOT :roots_only::boolean
     OR instances.parent_id IS NULL
     OR starts_with(instances.parent_id, 'perdure' || '.'))
AND (:id_prefix::text IS NULL OR starts_with(instances.instance_id, :id_prefix::text))
AND (:ended_before_ms::bigint IS NULL OR instances.ended_ms < :ended_before_ms::bigint)
AND (:tag::text IS NULL OR EXISTS (
    SELECT 1
    FROM perdure.jobs
    JOIN perdure.definitions
        ON definitions.part = 0
       AND definitions.definition_no = jobs.queue_no
       AND definitions.kind = 'activity'
    WHERE jobs.part = ANY (ARRAY[instances.part])
      AND jobs.instance_id = instances.instance_id
      AND jobs.incarnation = instances.incarnation
      AND definitions.variant = :tag::text
))
