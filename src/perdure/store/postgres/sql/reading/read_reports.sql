-- Read what instances say of themselves.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: index of the key, version, value,
-- updated_ms.
SELECT wanted.position - 1, reports.version, reports.value, reports.updated_ms
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.reports
    ON reports.part = (wanted.value ->> 0)::smallint
   AND reports.instance_id = wanted.value ->> 1;
