-- Read the newest states of executions.
-- Params: keys, JSON [[part, instance_id, incarnation, execution], ...]. Returns: index of the key,
-- seq, schema, version, body.
SELECT wanted.position - 1, snapshots.seq, snapshots.schema, snapshots.version, snapshots.body
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.snapshots
    ON snapshots.part = (wanted.value ->> 0)::smallint
   AND snapshots.instance_id = wanted.value ->> 1
   AND snapshots.incarnation = (wanted.value ->> 2)::bigint
   AND snapshots.execution = (wanted.value ->> 3)::bigint;
