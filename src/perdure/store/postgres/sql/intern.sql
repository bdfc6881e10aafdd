-- Give a definition its number, if it has none.
-- Params: kind; name; variant; behaviour. Returns: nothing.
-- Who comes second waits for the first to commit, and then finds its number.
INSERT INTO perdure.definitions (kind, name, variant, behaviour)
VALUES (:kind::text, :name::text, :variant::text, :behaviour::bigint)
ON CONFLICT (part, kind, name, variant, behaviour) DO NOTHING;
