-- Return the definition behind a number.
-- Params: definition_no. Returns: kind, name, variant, behaviour, or no row.
SELECT kind, name, variant, behaviour
FROM definitions
WHERE definition_no = :definition_no;
