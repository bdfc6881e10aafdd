-- Give definitions their numbers, if they have none.
-- Params: rows, JSON [[definition_no, kind, name, variant, behaviour], ...]. Returns: nothing.
-- WHERE, because SQLite would take ON for the beginning of a join.
INSERT INTO definitions (definition_no, kind, name, variant, behaviour)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE TRUE
ON CONFLICT (kind, name, variant, behaviour) DO NOTHING;
