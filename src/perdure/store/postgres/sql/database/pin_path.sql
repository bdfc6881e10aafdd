-- Have names mean what PostgreSQL means by them, until the transaction ends: what others have put
-- into the schemas of a search path is not for us to call.
-- Params: none. Returns: the search path that was.
-- Runs under that path, so it names what is its own by schema.
SELECT
    pg_catalog.current_setting('search_path'),
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
