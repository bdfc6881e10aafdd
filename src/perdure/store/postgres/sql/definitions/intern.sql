-- Give definitions their numbers, if they have none.
-- Params: rows, JSON [[definition_no, kind, name, variant, behaviour], ...]. Returns: nothing.
-- The second of two processes waits for the first to commit, and then finds its number. In order of
-- the key, so that they never wait for each other.
INSERT INTO perdure.definitions (definition_no, kind, name, variant, behaviour)
SELECT
    (value ->> 0)::bigint, (value ->> 1) COLLATE "C", (value ->> 2) COLLATE "C",
    (value ->> 3) COLLATE "C", (value ->> 4)::bigint
FROM jsonb_array_elements(:rows::jsonb)
ORDER BY 2, 3, 4, 5
ON CONFLICT (part, kind, name, variant, behaviour) DO NOTHING;
