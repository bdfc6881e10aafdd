-- Have names looked for where they were before `pin_path`.
-- Params: path. Returns: the same.
SELECT pg_catalog.set_config('search_path', :path::pg_catalog.text, true);
