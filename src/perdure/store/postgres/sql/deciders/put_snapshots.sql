-- Keep the newest states of deciders.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, schema, version, made_ms,
-- body_begin, body_length], ...]; bodies. Returns: nothing.
-- ON CONFLICT is safe: the batch has the instance locked.
INSERT INTO perdure.snapshots (
    part, instance_id, incarnation, execution, seq, schema, version, made_ms, body
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    (value ->> 4)::bigint, (value ->> 5)::bigint, (value ->> 6)::bigint, (value ->> 7)::bigint,
    substr(:bodies::bytea, (value ->> 8)::int, (value ->> 9)::int)
FROM jsonb_array_elements(:rows::jsonb)
ON CONFLICT (part, instance_id) DO UPDATE SET
    incarnation = excluded.incarnation,
    execution = excluded.execution,
    seq = excluded.seq,
    schema = excluded.schema,
    version = excluded.version,
    made_ms = excluded.made_ms,
    body = excluded.body;
