-- Return the numbers of definitions.
-- Params: keys, JSON [[kind, name, variant, behaviour], ...]. Returns: one JSON text, [[index of
-- the key, definition_no], ...].
SELECT json_group_array(json_array(wanted.key, definitions.definition_no))
FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN definitions
WHERE definitions.kind = wanted.value ->> 0
  AND definitions.name = wanted.value ->> 1
  AND definitions.variant = wanted.value ->> 2
  AND definitions.behaviour = wanted.value ->> 3;
