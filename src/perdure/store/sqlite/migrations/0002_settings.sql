-- What the whole store has one of. What its columns mean is told in schema.sql. Named as a user's
-- own table cannot be: a store that exists may have one called `settings`.

CREATE TABLE perdure_settings (
    settings_no INTEGER PRIMARY KEY CHECK (settings_no = 0),
    secret      BLOB NOT NULL CHECK (length(secret) = 32)
) STRICT;
INSERT INTO perdure_settings (settings_no, secret) VALUES (0, randomblob(32));
