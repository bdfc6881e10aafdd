-- Read what instances say of themselves.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: index of the key, version, value,
-- updated_ms.
SELECT wanted.key, reports.version, reports.value, reports.updated_ms
FROM json_each(:keys) AS wanted
CROSS JOIN reports
WHERE reports.part = wanted.value ->> 0
  AND reports.instance_id = wanted.value ->> 1;
