-- Write what instances say of themselves; the version rises by the number of turns that reported.
-- Params: rows, JSON [[part, instance_id, turns, updated_ms, value_begin, value_length], ...];
-- bodies. Returns: nothing.
-- ON CONFLICT is safe: the batch has the instance locked.
INSERT INTO perdure.reports (part, instance_id, version, updated_ms, value)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    substr(:bodies::bytea, (value ->> 4)::int, (value ->> 5)::int)
FROM jsonb_array_elements(:rows::jsonb)
ON CONFLICT (part, instance_id) DO UPDATE SET
    version = reports.version + excluded.version,
    updated_ms = excluded.updated_ms,
    value = excluded.value;
