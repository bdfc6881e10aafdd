-- What the whole store has one of. What its columns mean is told in the schema.sql of SQLite.

CREATE TABLE perdure.perdure_settings (
    part        SMALLINT NOT NULL DEFAULT 0,
    settings_no INTEGER NOT NULL CHECK (settings_no = 0),
    secret      BYTEA NOT NULL CHECK (length(secret) = 32),
    PRIMARY KEY (part, settings_no)
);

-- The random bytes of three ids, 122 bits each: no function of PostgreSQL's own gives 32 at once.
INSERT INTO perdure.perdure_settings (settings_no, secret)
VALUES (
    0,
    sha256(
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
    )
);

-- Who reads everything by the default rights of the schema, and changes nothing, does not read this:
-- the secret is the right to keep any promise.
DO $readers$
DECLARE
    settings REGCLASS;
    reader TEXT;
BEGIN
    -- By its row: the name of the schema may have quotes in it, and this is a text in a text.
    SELECT tableoid::regclass INTO settings FROM perdure.perdure_settings;
    FOR reader IN
        SELECT CASE WHEN rights.grantee = 0 THEN 'PUBLIC' ELSE rights.grantee::regrole::text END
        FROM pg_class
        CROSS JOIN LATERAL aclexplode(pg_class.relacl) AS rights
        WHERE pg_class.oid = settings
          AND rights.grantee <> pg_class.relowner
        GROUP BY rights.grantee
        HAVING bool_and(rights.privilege_type = 'SELECT')
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %s', settings, reader);
    END LOOP;
END
$readers$;
