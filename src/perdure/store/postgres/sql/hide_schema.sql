-- Have names without a schema found elsewhere than in ours, until the transaction ends.
-- Params: schema, ours. Returns: the search_path.
-- A role that is named like the schema has it first in its path, and would read our tables and make
-- its own among them.
-- Runs under that path, so it names what is PostgreSQL's own by schema.
SELECT pg_catalog.set_config(
    'search_path',
    coalesce(
        pg_catalog.string_agg(pg_catalog.quote_ident(name::pg_catalog.text), ', ' ORDER BY place),
        ''
    ),
    true
)
FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS path (name, place)
WHERE name::pg_catalog.text OPERATOR(pg_catalog.<>) :schema::pg_catalog.text;
