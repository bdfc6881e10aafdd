-- Give a definition its number, if it has none.
-- Params: definition_no; kind; name; variant; behaviour. Returns: nothing.
INSERT INTO definitions (definition_no, kind, name, variant, behaviour)
VALUES (:definition_no, :kind, :name, :variant, :behaviour)
ON CONFLICT (kind, name, variant, behaviour) DO NOTHING;
