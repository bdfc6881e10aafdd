-- Give a definition its number, if it has none.
-- Params: definition_no; kind; name; variant; behaviour. Returns: nothing.
-- Who comes second waits for the first to commit, and then finds its number.
INSERT INTO perdure.definitions (definition_no, kind, name, variant, behaviour)
VALUES (:definition_no::bigint, :kind::text, :name::text, :variant::text, :behaviour::bigint)
ON CONFLICT (part, kind, name, variant, behaviour) DO NOTHING;
