-- Write what instances say of themselves; the version rises by the number of turns that reported.
-- Params: rows, JSON [[part, instance_id, turns, updated_ms, value_begin, value_length], ...];
-- bodies. Returns: nothing.
INSERT INTO reports (part, instance_id, version, updated_ms, value)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3,
    substr(:bodies, value ->> 4, value ->> 5)
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true
ON CONFLICT (part, instance_id) DO UPDATE SET
    version = reports.version + excluded.version,
    updated_ms = excluded.updated_ms,
    value = excluded.value;
