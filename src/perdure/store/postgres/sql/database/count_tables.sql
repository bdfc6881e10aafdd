-- Count the tables of the schema.
-- Params: schema, its name. Returns: whether it has our table of migrations; how many tables there
-- are.
SELECT
    coalesce(bool_or(tablename = 'migrations'), false),
    count(*)
FROM pg_tables
WHERE schemaname = :schema::text;
