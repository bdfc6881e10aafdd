-- Tell whether tables of a schema are found without its name.
-- Params: schema. Returns: true or false.
SELECT :schema::text = ANY (current_schemas(false));
