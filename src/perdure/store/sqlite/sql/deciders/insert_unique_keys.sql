-- Give instances business keys that no other has.
-- Params: rows, JSON [[part, scope, key, instance_id, incarnation], ...]. Returns: nothing.
INSERT INTO unique_keys (part, scope, key, instance_id, incarnation)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true;
