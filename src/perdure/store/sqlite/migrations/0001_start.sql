-- The first tables. What they and their columns mean, and which statement needs which index, is told
-- in schema.sql.

-- Marks the file as a perdure store: "perd" in ASCII.
PRAGMA application_id = 1885696612;

CREATE TABLE migrations (
    migration_no INTEGER PRIMARY KEY,
    name         TEXT NOT NULL,
    checksum     TEXT NOT NULL,
    applied_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE definitions (
    definition_no INTEGER PRIMARY KEY,
    kind          TEXT NOT NULL,
    name          TEXT NOT NULL,
    variant       TEXT NOT NULL,
    behaviour     INTEGER NOT NULL,
    UNIQUE (kind, name, variant, behaviour)
) STRICT;

CREATE TABLE live (
    part           INTEGER NOT NULL,
    instance_id    TEXT NOT NULL,
    definition_no  INTEGER,
    incarnation    INTEGER NOT NULL,
    execution      INTEGER NOT NULL,
    next_seq       INTEGER NOT NULL,
    wake_at_ms     INTEGER,
    lease          INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    home           TEXT,
    last_no        INTEGER NOT NULL,
    last_at_ms     INTEGER NOT NULL,
    last_commit    INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    blocked_by     TEXT,
    PRIMARY KEY (part, instance_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX live_by_wake ON live (definition_no, wake_at_ms) WHERE wake_at_ms IS NOT NULL;
CREATE INDEX live_by_block ON live (definition_no) WHERE blocked_by IS NOT NULL;

CREATE TABLE instances (
    part               INTEGER NOT NULL,
    instance_id        TEXT NOT NULL,
    incarnation        INTEGER NOT NULL,
    execution          INTEGER NOT NULL,
    definition_no      INTEGER NOT NULL,
    status             TEXT NOT NULL,
    created_ms         INTEGER NOT NULL,
    updated_ms         INTEGER NOT NULL,
    ended_ms           INTEGER,
    parent_id          TEXT,
    parent_incarnation INTEGER,
    last_commit        INTEGER NOT NULL,
    digest             BLOB,
    reason             TEXT,
    input              BLOB NOT NULL,
    output             BLOB,
    PRIMARY KEY (part, instance_id)
) STRICT;
CREATE INDEX instances_by_age ON instances (definition_no, created_ms, instance_id);
CREATE INDEX instances_by_parent ON instances (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX instances_by_trouble ON instances (status, definition_no, created_ms, instance_id)
WHERE status NOT IN ('running', 'completed');

CREATE TABLE history (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    execution   INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    kind        TEXT NOT NULL,
    at_ms       INTEGER NOT NULL,
    body        BLOB NOT NULL,
    commit_id   INTEGER,
    UNIQUE (part, instance_id, incarnation, execution, seq)
) STRICT;

CREATE TABLE inbox (
    part            INTEGER NOT NULL,
    instance_id     TEXT NOT NULL,
    no              INTEGER NOT NULL,
    effective_at_ms INTEGER NOT NULL,
    rank            INTEGER NOT NULL,
    execution       INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    timer_key       TEXT,
    body            BLOB NOT NULL,
    PRIMARY KEY (part, instance_id, no)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX inbox_by_timer ON inbox (part, instance_id, timer_key)
WHERE timer_key IS NOT NULL;

CREATE TABLE jobs (
    part          INTEGER NOT NULL,
    instance_id   TEXT NOT NULL,
    incarnation   INTEGER NOT NULL,
    execution     INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    queue_no      INTEGER NOT NULL,
    visible_at_ms INTEGER NOT NULL,
    token         INTEGER NOT NULL,
    worker_id     TEXT,
    attempt       INTEGER NOT NULL,
    lost          INTEGER NOT NULL,
    created_ms    INTEGER NOT NULL,
    session       TEXT,
    failures      BLOB,
    policy        BLOB NOT NULL,
    input         BLOB NOT NULL,
    start_by_ms   INTEGER,
    details       BLOB,
    progress      BLOB,
    beat_ms       INTEGER,
    rerun         INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (part, instance_id, incarnation, execution, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_by_time ON jobs (queue_no, visible_at_ms, session) WHERE session IS NULL;
CREATE INDEX jobs_by_session ON jobs (queue_no, session, visible_at_ms) WHERE session IS NOT NULL;

CREATE TABLE dead_jobs (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    execution   INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    queue_no    INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    lost        INTEGER NOT NULL,
    created_ms  INTEGER NOT NULL,
    died_ms     INTEGER NOT NULL,
    session     TEXT,
    failures    BLOB,
    policy      BLOB NOT NULL,
    input       BLOB NOT NULL,
    PRIMARY KEY (part, instance_id, incarnation, execution, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    part     INTEGER NOT NULL,
    session  TEXT NOT NULL,
    owner    TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    used_ms  INTEGER NOT NULL,
    PRIMARY KEY (part, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_owner ON sessions (owner);

CREATE TABLE kv (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    key         TEXT NOT NULL,
    updated_ms  INTEGER NOT NULL,
    value       BLOB NOT NULL,
    PRIMARY KEY (part, instance_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE reports (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    version     INTEGER NOT NULL,
    updated_ms  INTEGER NOT NULL,
    value       BLOB NOT NULL,
    PRIMARY KEY (part, instance_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE receipts (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    made_ms     INTEGER NOT NULL,
    no          INTEGER,
    outcome     BLOB,
    PRIMARY KEY (part, instance_id, message_id)
) STRICT, WITHOUT ROWID;

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
    worker_id      TEXT NOT NULL,
    status         TEXT NOT NULL,
    reason         TEXT,
    losses         INTEGER NOT NULL,
    updated_ms     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE workers (
    worker_id   TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    started_ms  INTEGER NOT NULL,
    seen_ms     INTEGER NOT NULL,
    definitions BLOB NOT NULL,
    place       TEXT NOT NULL,
    born        INTEGER NOT NULL,
    lease_ms    INTEGER NOT NULL,
    is_lasting  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW demand AS
SELECT
    definitions.kind,
    definitions.name,
    iif(definitions.kind = 'activity', definitions.variant, '') AS tag,
    sum(work.at_ms > clock.now_ms) AS running,
    sum(work.at_ms <= clock.now_ms) AS waiting,
    count(*) AS demand
FROM (
    SELECT live.definition_no, live.wake_at_ms AS at_ms, live.lease <> 0 AS is_leased
    FROM live
    WHERE live.definition_no IS NOT NULL
      AND live.wake_at_ms IS NOT NULL
    UNION ALL
    SELECT jobs.queue_no, jobs.visible_at_ms, jobs.token <> 0
    FROM jobs
) AS work
JOIN definitions ON definitions.definition_no = work.definition_no
CROSS JOIN (
    SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now_ms
) AS clock
WHERE work.at_ms <= clock.now_ms
   OR work.is_leased
GROUP BY 1, 2, 3;
