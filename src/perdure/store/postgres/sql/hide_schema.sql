-- Have names without a schema found elsewhere than in ours, until the transaction ends.
-- Params: schema, ours. Returns: the search_path.
-- A role that is named like the schema has it first in its path, and would read our tables and make
-- its own among them.
SELECT set_config(
    'search_path', coalesce(string_agg(quote_ident(name), ', ' ORDER BY place), ''), true
)
FROM unnest(current_schemas(false)) WITH ORDINALITY AS path (name, place)
WHERE name <> :schema::text;
