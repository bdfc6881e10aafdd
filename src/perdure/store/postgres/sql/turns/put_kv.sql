-- Write values that instances keep under keys, new or changed.
-- Params: rows, JSON [[part, instance_id, key, updated_ms, value_begin, value_length], ...];
-- bodies. Returns: nothing.
-- ON CONFLICT is safe: the batch has the instance locked.
INSERT INTO perdure.kv (part, instance_id, key, updated_ms, value)
SELECT
    (value ->> 0)::smallint, value ->> 1, value ->> 2, (value ->> 3)::bigint,
    substr(:bodies::bytea, (value ->> 4)::int, (value ->> 5)::int)
FROM jsonb_array_elements(:rows::jsonb)
ON CONFLICT (part, instance_id, key) DO UPDATE SET
    updated_ms = excluded.updated_ms,
    value = excluded.value;
