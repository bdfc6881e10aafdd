-- Free all business keys of instances.
-- Params: keys, JSON [[part, instance_id, ...], ...]. Returns: nothing.
DELETE FROM unique_keys
WHERE instance_id IN (
    SELECT CAST(value ->> 1 AS TEXT)
    FROM json_each(:keys)
);
