-- Write values that instances keep under keys, new or changed.
-- Params: rows, JSON [[part, instance_id, key, updated_ms, value_begin, value_length], ...];
-- bodies. Returns: nothing.
INSERT INTO kv (part, instance_id, key, updated_ms, value)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3,
    substr(:bodies, value ->> 4, value ->> 5)
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true
ON CONFLICT (part, instance_id, key) DO UPDATE SET
    updated_ms = excluded.updated_ms,
    value = excluded.value;
