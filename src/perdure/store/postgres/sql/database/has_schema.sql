-- Tell whether a schema is there.
-- Params: schema, its name. Returns: whether it is.
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = :schema::text);
