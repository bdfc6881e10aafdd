-- Roles for a perdure store in the schema "perdure". `perdure roles --schema NAME` prints this for
-- another schema; the roles are named after it.
--
-- Run it once, with psql, as a superuser or as somebody with CREATEROLE who may create schemas in
-- this database. It may be run again at any time, and before or after the first migration.
--
--   "perdure_owner"   owns the tables and changes them: run `perdure migrate` as a member
--   "perdure_worker"  reads and writes rows, and changes no table: workers and clients
--   "perdure_reader"  reads rows, all but the secret: people, dashboards, `perdure doctor`
--
-- Nobody logs in as these. Make them the roles of those who do:
--
--   CREATE ROLE shop LOGIN PASSWORD '...' IN ROLE "perdure_worker";
--   GRANT "perdure_reader" TO ann;
--   GRANT pg_read_all_stats TO ann;  -- doctor then sees old transactions of others
--
-- A member of the owner has to become it, or the tables it makes would be its own:
--
--   CREATE ROLE deploy LOGIN PASSWORD '...' IN ROLE "perdure_owner";
--   ALTER ROLE deploy IN DATABASE ... SET role = "perdure_owner";
--
-- A worker is trusted with everything in the schema: it can start, change and delete any instance.

BEGIN;

-- What others have put into the schemas of the search path must not be called by a superuser.
SET LOCAL search_path = pg_catalog, pg_temp;

DO $roles$
DECLARE
    wanted TEXT;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['"perdure_owner"', '"perdure_worker"', '"perdure_reader"']
    LOOP
        IF to_regrole(wanted) IS NULL THEN
            EXECUTE format('CREATE ROLE %s NOLOGIN', wanted);
        END IF;
        IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
            -- Only who can become a role may give it a schema.
            EXECUTE format('GRANT %s TO CURRENT_USER', wanted);
        END IF;
    END LOOP;
    IF to_regnamespace('"perdure"') IS NULL THEN
        CREATE SCHEMA "perdure";
    END IF;
END
$roles$;

-- The schema, and tables, views and functions that somebody else has made by migrating, become the owner's.
ALTER SCHEMA "perdure" OWNER TO "perdure_owner";
DO $owner$
DECLARE
    object REGCLASS;
    routine REGPROCEDURE;
BEGIN
    FOR object IN
        SELECT oid
        FROM pg_class
        WHERE relnamespace = to_regnamespace('"perdure"')
          AND relkind IN ('r', 'v')
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %s', object, '"perdure_owner"');
    END LOOP;
    FOR routine IN
        SELECT oid
        FROM pg_proc
        WHERE pronamespace = to_regnamespace('"perdure"')
    LOOP
        EXECUTE format('ALTER ROUTINE %s OWNER TO %s', routine, '"perdure_owner"');
    END LOOP;
END
$owner$;

-- Nobody else gets in.
REVOKE ALL ON SCHEMA "perdure" FROM PUBLIC;
GRANT USAGE ON SCHEMA "perdure" TO "perdure_worker", "perdure_reader";

-- What is there now.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "perdure" TO "perdure_worker";
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA "perdure" TO "perdure_worker";
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA "perdure" TO "perdure_worker";
GRANT SELECT ON ALL TABLES IN SCHEMA "perdure" TO "perdure_reader";
-- The secret is the right to keep any promise: readers are not given it, here and by the migration.
DO $secret$
BEGIN
    IF to_regclass('"perdure"' || '.perdure_settings') IS NOT NULL THEN
        REVOKE ALL ON "perdure".perdure_settings FROM "perdure_reader";
    END IF;
END
$secret$;

-- What later migrations will make.
ALTER DEFAULT PRIVILEGES FOR ROLE "perdure_owner" IN SCHEMA "perdure"
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO "perdure_worker";
ALTER DEFAULT PRIVILEGES FOR ROLE "perdure_owner" IN SCHEMA "perdure"
    GRANT USAGE, SELECT ON SEQUENCES TO "perdure_worker";
ALTER DEFAULT PRIVILEGES FOR ROLE "perdure_owner" IN SCHEMA "perdure"
    GRANT EXECUTE ON ROUTINES TO "perdure_worker";
ALTER DEFAULT PRIVILEGES FOR ROLE "perdure_owner" IN SCHEMA "perdure"
    GRANT SELECT ON TABLES TO "perdure_reader";

COMMIT;
