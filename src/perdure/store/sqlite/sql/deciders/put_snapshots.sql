-- Keep the newest states of deciders.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, schema, version, made_ms,
-- body_begin, body_length], ...]; bodies. Returns: nothing.
INSERT INTO snapshots (
    part, instance_id, incarnation, execution, seq, schema, version, made_ms, body
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, substr(:bodies, value ->> 8, value ->> 9)
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true
ON CONFLICT (part, instance_id) DO UPDATE SET
    incarnation = excluded.incarnation,
    execution = excluded.execution,
    seq = excluded.seq,
    schema = excluded.schema,
    version = excluded.version,
    made_ms = excluded.made_ms,
    body = excluded.body;
