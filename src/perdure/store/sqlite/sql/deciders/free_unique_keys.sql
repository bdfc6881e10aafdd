-- Free the business keys that instances have in a scope.
-- Params: keys, JSON [[instance_id, scope], ...]. Returns: nothing.
DELETE FROM unique_keys
WHERE (instance_id, scope) IN (
    SELECT
        CAST(value ->> 0 AS TEXT),
        CAST(value ->> 1 AS TEXT)
    FROM json_each(:keys)
);
