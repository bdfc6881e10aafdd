-- Let instances that had ended be running again: what tells of their end goes.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]; now_ms. Returns: nothing.
UPDATE instances
SET status = 'running',
    ended_ms = NULL,
    digest = NULL,
    reason = NULL,
    output = NULL,
    updated_ms = :now_ms
FROM (SELECT value FROM json_each(:keys) LIMIT -1) AS revived
WHERE instances.part = revived.value ->> 0
  AND instances.instance_id = revived.value ->> 1
  AND instances.incarnation = revived.value ->> 2;
