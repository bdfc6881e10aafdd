-- Have names without a schema found elsewhere, until the path is set anew or the transaction ends.
-- Params: path, as in `SET search_path`. Returns: the path before.
-- The path is read before it is set: a WITH query that is materialized is run first.
WITH former AS MATERIALIZED (SELECT current_setting('search_path') AS path)
SELECT former.path, set_config('search_path', :path::text, true)
FROM former;
