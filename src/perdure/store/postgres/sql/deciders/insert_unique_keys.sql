-- Give instances business keys that no other has.
-- Params: rows, JSON [[part, scope, key, instance_id, incarnation], ...]. Returns: nothing.
-- Fails if another batch has taken one meanwhile. In order of the key, so that two batches that
-- take the same keys never wait for each other.
INSERT INTO perdure.unique_keys (part, scope, key, instance_id, incarnation)
SELECT
    (value ->> 0)::smallint, (value ->> 1) COLLATE "C", (value ->> 2) COLLATE "C", value ->> 3,
    (value ->> 4)::bigint
FROM jsonb_array_elements(:rows::jsonb)
ORDER BY 1, 2, 3;
