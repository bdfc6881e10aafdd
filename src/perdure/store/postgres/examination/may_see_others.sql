-- Tell whether the sessions of other roles can be seen.
-- Returns: one value.
SELECT pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE');
