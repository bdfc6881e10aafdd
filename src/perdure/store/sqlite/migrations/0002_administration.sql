-- Keys and values, reports, sessions, dead jobs, and what lists need.

CREATE INDEX instances_by_age ON instances (created_ms, instance_id);
CREATE INDEX instances_by_parent ON instances (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX instances_by_trouble ON instances (status, created_ms, instance_id)
WHERE status NOT IN ('running', 'completed');

ALTER TABLE jobs ADD COLUMN start_by_ms INTEGER;
ALTER TABLE jobs ADD COLUMN details BLOB;
ALTER TABLE jobs ADD COLUMN progress BLOB;
ALTER TABLE jobs ADD COLUMN beat_ms INTEGER;
DROP INDEX jobs_by_time;
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
    priority    INTEGER NOT NULL,
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
