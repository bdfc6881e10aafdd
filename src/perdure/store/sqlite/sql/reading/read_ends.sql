-- Read how instances ended, of those that have, and why those are held that are.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: index of the key, incarnation, status,
-- output, reason and digest; no incarnation if there is no such instance.
SELECT
    wanted.key,
    instances.incarnation,
    instances.status,
    instances.output,
    instances.reason,
    instances.digest
FROM json_each(:keys) AS wanted
LEFT JOIN instances
    ON instances.part = wanted.value ->> 0
   AND instances.instance_id = wanted.value ->> 1
WHERE instances.incarnation IS NULL
   OR instances.status != 'running';
