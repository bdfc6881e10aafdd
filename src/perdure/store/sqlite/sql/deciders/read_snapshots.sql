-- Read the newest states of executions.
-- Params: keys, JSON [[part, instance_id, incarnation, execution], ...]. Returns: index of the key,
-- seq, schema, version, body.
SELECT wanted.key, snapshots.seq, snapshots.schema, snapshots.version, snapshots.body
FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN snapshots
WHERE snapshots.part = wanted.value ->> 0
  AND snapshots.instance_id = wanted.value ->> 1
  AND snapshots.incarnation = wanted.value ->> 2
  AND snapshots.execution = wanted.value ->> 3;
