-- Read how instances ended, of those that have, and why those are held that are.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: index of the key, incarnation, status,
-- output, reason (as UTF-8) and digest; no incarnation if there is no such instance.
SELECT
    wanted.position - 1,
    instances.incarnation,
    instances.status,
    instances.output,
    instances.reason,
    instances.digest
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
LEFT JOIN perdure.instances
    ON instances.part = (wanted.value ->> 0)::smallint
   AND instances.instance_id = wanted.value ->> 1
WHERE instances.incarnation IS NULL
   OR instances.status != 'running';
