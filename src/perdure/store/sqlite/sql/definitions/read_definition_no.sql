-- Return the number of a definition.
-- Params: kind; name; variant; behaviour. Returns: definition_no, or no row.
SELECT definition_no
FROM definitions
WHERE kind = :kind
  AND name = :name
  AND variant = :variant
  AND behaviour = :behaviour;
