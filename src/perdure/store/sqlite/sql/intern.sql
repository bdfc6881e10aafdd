-- Give a definition its number, if it has none.
-- Params: kind; name; variant; behaviour. Returns: nothing.
INSERT INTO definitions (kind, name, variant, behaviour)
VALUES (:kind, :name, :variant, :behaviour)
ON CONFLICT (kind, name, variant, behaviour) DO NOTHING;
