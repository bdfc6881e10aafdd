-- Tell which database this is.
-- Params: table_name, of the table of migrations. Returns: its name; a number; whether it has the
-- table.
SELECT
    datname::text,
    oid::bigint,
    to_regclass(:table_name::text) IS NOT NULL
FROM pg_database
WHERE datname = current_database();
