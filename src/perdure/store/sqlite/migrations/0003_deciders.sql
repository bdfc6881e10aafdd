-- What deciders need: answers to repeated inputs, business keys, snapshots, a feed of their events
-- in the order of commits, observed inputs, how far readers of the feed have come, and which jobs had
-- died before.

ALTER TABLE receipts ADD COLUMN no INTEGER;
ALTER TABLE receipts ADD COLUMN outcome BLOB;

ALTER TABLE jobs ADD COLUMN rerun INTEGER NOT NULL DEFAULT 0;

CREATE TABLE unique_keys (
    part        INTEGER NOT NULL,
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    PRIMARY KEY (part, scope, key)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX unique_keys_by_holder ON unique_keys (instance_id, scope);

CREATE TABLE snapshots (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    execution   INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    schema      INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    made_ms     INTEGER NOT NULL,
    body        BLOB NOT NULL,
    PRIMARY KEY (part, instance_id)
) STRICT;

CREATE TABLE feed (
    pos           INTEGER PRIMARY KEY AUTOINCREMENT,
    part          INTEGER NOT NULL,
    instance_id   TEXT NOT NULL,
    incarnation   INTEGER NOT NULL,
    execution     INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    definition_no INTEGER NOT NULL,
    tag           TEXT NOT NULL,
    version       INTEGER NOT NULL DEFAULT 0,
    cause         TEXT NOT NULL DEFAULT '',
    correlation   TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX feed_by_instance ON feed (instance_id);

CREATE TABLE observations (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    no          INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    tag         TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    input_id    TEXT NOT NULL,
    input       BLOB NOT NULL,
    rejection   BLOB,
    PRIMARY KEY (part, instance_id, no)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
    name           TEXT PRIMARY KEY,
    pos            INTEGER NOT NULL,
    lease          INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    status         TEXT NOT NULL,
    reason         TEXT,
    losses         INTEGER NOT NULL,
    updated_ms     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
