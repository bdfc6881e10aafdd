-- Return the number of a definition.
-- Params: kind; name; variant; behaviour. Returns: definition_no, or no row.
SELECT definition_no
FROM perdure.definitions
WHERE part = 0
  AND kind = :kind::text
  AND name = :name::text
  AND variant = :variant::text
  AND behaviour = :behaviour::bigint;
