-- Functions that call nothing but PostgreSQL's own, wherever they are called from.

-- Whoever may create in a schema of the caller's search path could have an operator there that fits
-- a statement better than PostgreSQL's own does, and it would run with the rights of the caller.
ALTER FUNCTION perdure.number_feed(bigint) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION perdure.load_1(text[], jsonb[]) SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION perdure.write_1(text[], jsonb[], bytea[], bigint)
    SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION perdure.write_known_1(jsonb, jsonb, text[], jsonb[], bytea[], bigint)
    SET search_path = pg_catalog, pg_temp;
