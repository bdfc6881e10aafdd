-- Count which incarnations are present and may be removed: ended, or forced.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]; force. Returns: how many.
SELECT count(*)
FROM (SELECT value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN instances
WHERE instances.part = wanted.value ->> 0
  AND instances.instance_id = wanted.value ->> 1
  AND instances.incarnation = wanted.value ->> 2
  AND (:force OR instances.ended_ms IS NOT NULL);
