-- Return the definition behind a number.
-- Params: definition_no. Returns: kind, name, variant, behaviour, or no row.
SELECT kind, name, variant, behaviour
FROM perdure.definitions
WHERE part = 0
  AND definition_no = :definition_no::bigint;
