-- The whole truth about the tables. `migrations/` leads to it; a test builds both and compares.
--
-- Everywhere: `part` is crc32(instance_id) % 256; times are milliseconds since the epoch; bodies
-- are bytes that the store never opens; incarnations, tokens and commit ids are random 63-bit
-- numbers and 0 means none.

-- Which migrations this file has seen.
CREATE TABLE migrations (
    migration_no INTEGER PRIMARY KEY,
    name         TEXT NOT NULL,
    checksum     TEXT NOT NULL,          -- SHA-256 of the migration's file
    applied_ms   INTEGER NOT NULL
) STRICT;

-- What the whole store has one of: a single row.
CREATE TABLE perdure_settings (
    settings_no INTEGER PRIMARY KEY CHECK (settings_no = 0),
    secret      BLOB NOT NULL CHECK (length(secret) = 32)  -- signs the tokens of promises; not shown
) STRICT;

-- Small lasting numbers for what claims ask for: orchestrations by version, activities by tag.
CREATE TABLE definitions (
    definition_no INTEGER PRIMARY KEY,
    kind          TEXT NOT NULL,
    name          TEXT NOT NULL,
    variant       TEXT NOT NULL,
    behaviour     INTEGER NOT NULL,
    UNIQUE (kind, name, variant, behaviour)  -- intern
) STRICT;

-- One narrow row per unfinished instance: all that the fence and the queue need. Also for ids that
-- have messages but were not started yet (unborn: definition_no is NULL, the stamp is 0).
CREATE TABLE live (
    part           INTEGER NOT NULL,
    instance_id    TEXT NOT NULL,
    definition_no  INTEGER,
    incarnation    INTEGER NOT NULL,
    execution      INTEGER NOT NULL,
    next_seq       INTEGER NOT NULL,
    wake_at_ms     INTEGER,              -- ready from then on; of a leased one, the lease's end
    lease          INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    home           TEXT,                 -- the worker that has it in memory
    last_no        INTEGER NOT NULL,     -- number of its newest message
    last_at_ms     INTEGER NOT NULL,     -- arrival of its newest message; rises while one waits
    last_commit    INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,     -- claims since the last accepted commit
    blocked_by     TEXT,                 -- code that does not fit, '*' when parked: model/blocked.py
    PRIMARY KEY (part, instance_id)
) STRICT, WITHOUT ROWID;
-- claim_turns, next_wake. An instance that waits without a timer is not in it.
CREATE INDEX live_by_wake ON live (definition_no, wake_at_ms) WHERE wake_at_ms IS NOT NULL;
-- find_blocked. Empty as long as nothing is blocked.
CREATE INDEX live_by_block ON live (definition_no) WHERE blocked_by IS NOT NULL;

-- The wide row people list. Written at start, end and change of status only.
CREATE TABLE instances (
    part               INTEGER NOT NULL,
    instance_id        TEXT NOT NULL,
    incarnation        INTEGER NOT NULL,
    execution          INTEGER NOT NULL, -- of a running instance the live row is right
    definition_no      INTEGER NOT NULL,
    status             TEXT NOT NULL,
    created_ms         INTEGER NOT NULL,
    updated_ms         INTEGER NOT NULL,
    ended_ms           INTEGER,
    parent_id          TEXT,
    parent_incarnation INTEGER,
    last_commit        INTEGER NOT NULL, -- of the turn that ended it
    digest             BLOB,             -- over its whole history, written when it ends
    reason             TEXT,
    input              BLOB NOT NULL,
    output             BLOB,
    PRIMARY KEY (part, instance_id)      -- load_instances, read_instances, end_instances
) STRICT;
-- list_instances, read_age. Grows at one end per definition, so a start pays little for it; there
-- are few definitions, so a list of all is put together from a list of each.
CREATE INDEX instances_by_age ON instances (definition_no, created_ms, instance_id);
-- read_children, list_among, find_stray_children, free_children. Empty while nothing has children.
CREATE INDEX instances_by_parent ON instances (parent_id) WHERE parent_id IS NOT NULL;
-- list_in_trouble, read_trouble_age, totals: what people look for among the very many that run or
-- went well.
CREATE INDEX instances_by_trouble ON instances (status, definition_no, created_ms, instance_id)
WHERE status NOT IN ('running', 'completed');

-- Append only, one row per event. A rowid table: appending is several times faster than
-- clustering by scattered keys, and only the unique index pays for the scatter.
CREATE TABLE history (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    execution   INTEGER NOT NULL,
    seq         INTEGER NOT NULL,        -- from 1 without gap
    kind        TEXT NOT NULL,
    at_ms       INTEGER NOT NULL,
    body        BLOB NOT NULL,
    commit_id   INTEGER,                 -- of its turn, with the first event of that
    UNIQUE (part, instance_id, incarnation, execution, seq)  -- read_histories, load_commits; S1
) STRICT;

-- Messages on their way in, numbered under the live row.
CREATE TABLE inbox (
    part            INTEGER NOT NULL,
    instance_id     TEXT NOT NULL,
    no              INTEGER NOT NULL,    -- below 0: given to this execution by the one before
    effective_at_ms INTEGER NOT NULL,    -- arrival, or the due time of a timer
    rank            INTEGER NOT NULL,    -- 0 the start, 1 a message, 2 a timer
    execution       INTEGER NOT NULL,    -- 0: for any execution
    kind            TEXT NOT NULL,
    timer_key       TEXT,
    body            BLOB NOT NULL,
    PRIMARY KEY (part, instance_id, no)
) STRICT, WITHOUT ROWID;
-- delete_timers; a key is unique within an instance.
CREATE UNIQUE INDEX inbox_by_timer ON inbox (part, instance_id, timer_key)
WHERE timer_key IS NOT NULL;

-- Queued runs of activities. The key is the call it answers.
CREATE TABLE jobs (
    part          INTEGER NOT NULL,
    instance_id   TEXT NOT NULL,
    incarnation   INTEGER NOT NULL,
    execution     INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    queue_no      INTEGER NOT NULL,      -- a definition_no
    visible_at_ms INTEGER NOT NULL,      -- claimable from then on; of a leased one, the lease's end
    token         INTEGER NOT NULL,
    worker_id     TEXT,
    attempt       INTEGER NOT NULL,
    lost          INTEGER NOT NULL,      -- attempts whose lease ran out
    created_ms    INTEGER NOT NULL,
    session       TEXT,
    failures      BLOB,                  -- a JobFailures as JSON
    policy        BLOB NOT NULL,
    input         BLOB NOT NULL,
    start_by_ms   INTEGER,               -- its claim removes the owner's timer 'start:{seq}'
    details       BLOB,                  -- of the last heartbeat, for the next attempt
    progress      BLOB,                  -- of the last heartbeat, for whoever watches
    beat_ms       INTEGER,
    rerun         INTEGER NOT NULL DEFAULT 0,  -- 1: it had died, and a person put it back
    PRIMARY KEY (part, instance_id, incarnation, execution, seq)
) STRICT, WITHOUT ROWID;
-- find_jobs, next_wake. Leased jobs are in it too: they are claimable again when the lease ends.
-- The session, always NULL, so that SQLite 3.40 need not look for it in the row.
CREATE INDEX jobs_by_time ON jobs (queue_no, visible_at_ms, session) WHERE session IS NULL;
-- find_session_jobs, next_wake. By session first: the backlog of a session that is somebody else's
-- costs one look.
CREATE INDEX jobs_by_session ON jobs (queue_no, session, visible_at_ms) WHERE session IS NOT NULL;

-- Jobs that ran out of attempts, for a person to look at, to run again or to forget.
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
    failures    BLOB,                    -- a JobFailures as JSON
    policy      BLOB NOT NULL,
    input       BLOB NOT NULL,
    PRIMARY KEY (part, instance_id, incarnation, execution, seq)
) STRICT, WITHOUT ROWID;

-- Which worker has which session. `part` is that of the session's own name.
CREATE TABLE sessions (
    part     INTEGER NOT NULL,
    session  TEXT NOT NULL,
    owner    TEXT NOT NULL,
    until_ms INTEGER NOT NULL,           -- the end of the owner's lease
    used_ms  INTEGER NOT NULL,           -- when a job of it was last claimed, renewed or ended
    PRIMARY KEY (part, session)
) STRICT, WITHOUT ROWID;
-- renew_sessions, release_sessions.
CREATE INDEX sessions_by_owner ON sessions (owner);

-- What instances keep under keys, for themselves and for whoever asks.
CREATE TABLE kv (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    key         TEXT NOT NULL,
    updated_ms  INTEGER NOT NULL,
    value       BLOB NOT NULL,
    PRIMARY KEY (part, instance_id, key)
) STRICT, WITHOUT ROWID;

-- What instances say of themselves. `version` rises by one with every turn that reports.
CREATE TABLE reports (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    version     INTEGER NOT NULL,
    updated_ms  INTEGER NOT NULL,
    value       BLOB NOT NULL,
    PRIMARY KEY (part, instance_id)
) STRICT, WITHOUT ROWID;

-- What instances and their activities say while they work. A row is what was sent together, one
-- after another. The row of an activity counts as long as its attempt has the job, and for good
-- once that has succeeded; otherwise it is void, and taken back when that is noticed.
CREATE TABLE perdure_streams (
    part          INTEGER NOT NULL,
    instance_id   TEXT NOT NULL,
    stream        TEXT NOT NULL,
    last_index    INTEGER NOT NULL,      -- of its last item; of a take-back, its own
    items         INTEGER NOT NULL,      -- how many; 0: it takes back
    discards_from INTEGER,               -- of a take-back: what is void has this index or a higher one
    incarnation   INTEGER NOT NULL,
    execution     INTEGER NOT NULL,
    seq           INTEGER NOT NULL,      -- of the call of the activity, or the turn's first event
    attempt       INTEGER NOT NULL,      -- of the activity; 0: the orchestration sent it
    token         INTEGER NOT NULL,      -- of the attempt's lease on its job; 0: it counts for good
    at_ms         INTEGER NOT NULL,
    body          BLOB NOT NULL,         -- JSON, list of the items; {"numbers", "items"} of a for_each
    UNIQUE (part, instance_id, stream, last_index)  -- read_stream, move_stream_rows
) STRICT;
-- find_void_rows, keep_stream_rows, find_stream_news. Empty where no activity sends.
CREATE INDEX perdure_streams_by_token
ON perdure_streams (part, instance_id, stream, token) WHERE token <> 0;

-- Which index the next item of a stream gets. Locked by those who send.
CREATE TABLE perdure_stream_heads (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    stream      TEXT NOT NULL,
    next_index  INTEGER NOT NULL,
    PRIMARY KEY (part, instance_id, stream)
) STRICT, WITHOUT ROWID;

-- Ids of messages that were delivered and of inputs that were decided, so that each is so once.
CREATE TABLE receipts (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    made_ms     INTEGER NOT NULL,
    no          INTEGER,                 -- its number in the inbox; NULL: it was never there
    outcome     BLOB,                    -- what an input came to; NULL: not decided, or no input
    PRIMARY KEY (part, instance_id, message_id)
) STRICT, WITHOUT ROWID;

-- Business keys of instances. `part` is that of the key itself.
CREATE TABLE unique_keys (
    part        INTEGER NOT NULL,
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    PRIMARY KEY (part, scope, key)       -- load_unique_keys
) STRICT, WITHOUT ROWID;
-- free_unique_keys, delete_unique_keys; an instance has one key of a scope.
CREATE UNIQUE INDEX unique_keys_by_holder ON unique_keys (instance_id, scope);

-- The newest state of a decider, so that a load need not fold all its events.
CREATE TABLE snapshots (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    execution   INTEGER NOT NULL,
    seq         INTEGER NOT NULL,        -- the last event that is in it
    schema      INTEGER NOT NULL,
    version     INTEGER NOT NULL,        -- how many of the decider's own events are in it
    made_ms     INTEGER NOT NULL,
    body        BLOB NOT NULL,
    PRIMARY KEY (part, instance_id)      -- read_snapshots, put_snapshots
) STRICT;

-- Events of deciders in the order of their commits: one transaction writes at a time, and a
-- position is never given twice.
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
-- delete_feed, delete_feed_of_executions.
CREATE INDEX feed_by_instance ON feed (instance_id);

-- Inputs that deciders were given, accepted or not, for those that keep them.
CREATE TABLE observations (
    part        INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    no          INTEGER NOT NULL,        -- from 1 without gap
    at_ms       INTEGER NOT NULL,
    tag         TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    input_id    TEXT NOT NULL,
    input       BLOB NOT NULL,
    rejection   BLOB,
    PRIMARY KEY (part, instance_id, no)
) STRICT, WITHOUT ROWID;

-- How far readers of the feed have come.
CREATE TABLE checkpoints (
    name           TEXT PRIMARY KEY,
    pos            INTEGER NOT NULL,     -- the last event that was handled
    lease          INTEGER NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    worker_id      TEXT NOT NULL,        -- who had the lease last
    status         TEXT NOT NULL,
    reason         TEXT,
    losses         INTEGER NOT NULL,     -- workers that were lost here, with events before them
    updated_ms     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Signs of life.
CREATE TABLE workers (
    worker_id   TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    started_ms  INTEGER NOT NULL,
    seen_ms     INTEGER NOT NULL,
    definitions BLOB NOT NULL,           -- JSON, list of DefinitionKey
    place       TEXT NOT NULL,           -- where pid and born mean one process; empty: not known
    born        INTEGER NOT NULL,        -- when the process started, as its kernel counts
    lease_ms    INTEGER NOT NULL,        -- how long its leases last
    is_lasting  INTEGER NOT NULL         -- 1: the next process of its name comes for its sessions
) STRICT, WITHOUT ROWID;

-- For autoscalers: the turns and jobs that run and that could be taken now, by definition and tag
-- (empty for turns, and for calls without one). What waits for its time or for a message is not in
-- it. A lease that ran out waits.
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
