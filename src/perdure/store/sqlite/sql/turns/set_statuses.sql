-- Change the status of instances that go on: held, or running again.
-- Params: rows, JSON [[part, instance_id, incarnation, status, reason_begin, reason_length], ...];
-- bodies; now_ms. Returns: nothing.
UPDATE instances
SET status = changed.value ->> 3,
    reason = CAST(substr(:bodies, changed.value ->> 4, changed.value ->> 5) AS TEXT),
    updated_ms = :now_ms
FROM (SELECT value FROM json_each(:rows) LIMIT -1) AS changed
WHERE instances.part = changed.value ->> 0
  AND instances.instance_id = changed.value ->> 1
  AND instances.incarnation = changed.value ->> 2
  AND instances.ended_ms IS NULL;
