-- Made by tools/make_functions.py from the files in sql/. Do not edit.
--
-- Plans are made once per session and go by index whatever the statistics say: they are old when a
-- table grows quickly.

-- Runs the statements that load what a batch touches, in the order in which they are given:
-- names[i] with the JSON keys packed[i]. The first takes the locks; each sees what was committed
-- before it began.
CREATE FUNCTION perdure.load_2(names text[], packed jsonb[]) RETURNS text[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    these_rows jsonb;
    found_rows text[] := ARRAY[]::text[];
BEGIN
FOR place IN 1 .. cardinality(names) LOOP
these_rows := packed[place];
CASE names[place]
WHEN 'load_commits' THEN
found_rows := array_append(found_rows, (
SELECT coalesce(json_agg(json_build_array(wanted.key, history.commit_id)), '[]'::json)
FROM (
    SELECT
        position - 1 AS key,
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS incarnation,
        (value ->> 3)::bigint AS execution,
        (value ->> 4)::bigint AS seq
    FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS given (value, position)
) AS wanted
JOIN perdure.history
    ON history.part = ANY (ARRAY[wanted.part])
   AND history.instance_id = wanted.instance_id
   AND history.incarnation = wanted.incarnation
   AND history.execution = wanted.execution
   AND history.seq = wanted.seq
WHERE history.commit_id IS NOT NULL
)::text);
WHEN 'load_instances' THEN
found_rows := array_append(found_rows, (
WITH locked AS MATERIALIZED (
    SELECT wanted.key, instances.incarnation, instances.definition_no
    FROM (
        SELECT
            position - 1 AS key,
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id
        FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS given (value, position)
    ) AS wanted
    JOIN perdure.instances
        ON instances.part = ANY (ARRAY[wanted.part])
       AND instances.instance_id = wanted.instance_id
    ORDER BY wanted.part, wanted.instance_id
    FOR UPDATE OF instances
)
SELECT coalesce(
    json_agg(json_build_array(key, incarnation, definition_no)),
    '[]'::json
)
FROM locked
)::text);
WHEN 'load_jobs' THEN
found_rows := array_append(found_rows, (
WITH locked AS MATERIALIZED (
    SELECT wanted.key, jobs.token, jobs.attempt, jobs.failures, jobs.session
    FROM (
        SELECT
            position - 1 AS key,
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id,
            (value ->> 2)::bigint AS incarnation,
            (value ->> 3)::bigint AS execution,
            (value ->> 4)::bigint AS seq
        FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS given (value, position)
    ) AS wanted
    JOIN perdure.jobs
        ON jobs.part = ANY (ARRAY[wanted.part])
       AND jobs.instance_id = wanted.instance_id
       AND jobs.incarnation = wanted.incarnation
       AND jobs.execution = wanted.execution
       AND jobs.seq = wanted.seq
    ORDER BY
        wanted.part, wanted.instance_id, wanted.incarnation, wanted.execution, wanted.seq
    FOR UPDATE OF jobs
)
SELECT coalesce(
    json_agg(json_build_array(key, token, attempt, encode(failures, 'hex'), session)),
    '[]'::json
)
FROM locked
)::text);
WHEN 'load_live' THEN
found_rows := array_append(found_rows, (
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1,
    live.definition_no,
    live.incarnation,
    live.execution,
    live.next_seq,
    live.wake_at_ms,
    live.lease,
    live.lease_until_ms,
    live.home,
    live.last_no,
    live.last_at_ms,
    live.last_commit,
    live.attempts,
    live.blocked_by
)), '[]'::json)
FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.live
    ON live.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND live.instance_id = wanted.value ->> 1
)::text);
WHEN 'load_observed' THEN
found_rows := array_append(found_rows, (
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1,
    coalesce((
        SELECT observations.no
        FROM perdure.observations
        WHERE observations.part = (wanted.value ->> 0)::smallint
          AND observations.instance_id = wanted.value ->> 1
        ORDER BY observations.no DESC
        LIMIT 1
    ), 0)
)), '[]'::json)
FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS wanted (value, position)
)::text);
WHEN 'load_receipts' THEN
found_rows := array_append(found_rows, (
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1, receipts.no, receipts.outcome IS NOT NULL
)), '[]'::json)
FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.receipts
    ON receipts.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND receipts.instance_id = wanted.value ->> 1
   AND receipts.message_id = wanted.value ->> 2
)::text);
WHEN 'load_unique_keys' THEN
found_rows := array_append(found_rows, (
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1, unique_keys.instance_id
)), '[]'::json)
FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.unique_keys
    ON unique_keys.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND unique_keys.scope = wanted.value ->> 1
   AND unique_keys.key = wanted.value ->> 2
)::text);
WHEN 'load_waiting' THEN
found_rows := array_append(found_rows, (
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1, inbox.no, inbox.rank
)), '[]'::json)
FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.inbox
    ON inbox.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND inbox.instance_id = wanted.value ->> 1
)::text);
WHEN 'lock_live' THEN
found_rows := array_append(found_rows, (
WITH locked AS MATERIALIZED (
    SELECT wanted.key, live.*
    FROM (
        SELECT
            position - 1 AS key,
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id
        FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS given (value, position)
    ) AS wanted
    JOIN perdure.live
        ON live.part = ANY (ARRAY[wanted.part])
       AND live.instance_id = wanted.instance_id
    ORDER BY wanted.part, wanted.instance_id
    FOR UPDATE OF live
)
SELECT coalesce(json_agg(json_build_array(
    key,
    definition_no,
    incarnation,
    execution,
    next_seq,
    wake_at_ms,
    lease,
    lease_until_ms,
    home,
    last_no,
    last_at_ms,
    last_commit,
    attempts,
    blocked_by
)), '[]'::json)
FROM locked
)::text);
WHEN 'try_live' THEN
found_rows := array_append(found_rows, (
WITH locked AS MATERIALIZED (
    SELECT wanted.key, live.*
    FROM (
        SELECT
            position - 1 AS key,
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id
        FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS given (value, position)
    ) AS wanted
    JOIN perdure.live
        ON live.part = ANY (ARRAY[wanted.part])
       AND live.instance_id = wanted.instance_id
    ORDER BY wanted.part, wanted.instance_id
    FOR UPDATE OF live SKIP LOCKED
)
SELECT coalesce(json_agg(json_build_array(
    key,
    definition_no,
    incarnation,
    execution,
    next_seq,
    wake_at_ms,
    lease,
    lease_until_ms,
    home,
    last_no,
    last_at_ms,
    last_commit,
    attempts,
    blocked_by
)), '[]'::json)
FROM locked
)::text);
ELSE RAISE EXCEPTION 'perdure has no statement %', names[place];
END CASE;
END LOOP;
RETURN found_rows;
END
$function$;

-- Runs the statements of a commit, in the order in which they are given: names[i] with the JSON
-- packed[i] and the bodies blobs[i].
CREATE FUNCTION perdure.write_2(
    names text[], packed jsonb[], blobs bytea[], at_ms bigint
) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    these_rows jsonb;
    these_bodies bytea;
BEGIN
FOR place IN 1 .. cardinality(names) LOOP
these_rows := packed[place];
these_bodies := blobs[place];
CASE names[place]
WHEN 'bury_jobs' THEN
INSERT INTO perdure.dead_jobs (
    part, instance_id, incarnation, execution, seq, queue_no, attempt, lost, priority, created_ms,
    died_ms, session, failures, policy, input
)
SELECT
    jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq, jobs.queue_no,
    jobs.attempt, jobs.lost, jobs.priority, jobs.created_ms, at_ms, jobs.session,
    substr(these_bodies, (dead.value ->> 5)::int, (dead.value ->> 6)::int), jobs.policy,
    jobs.input
FROM jsonb_array_elements(these_rows) AS dead (value)
JOIN perdure.jobs
    ON jobs.part = ANY (ARRAY[(dead.value ->> 0)::smallint])
   AND jobs.instance_id = dead.value ->> 1
   AND jobs.incarnation = (dead.value ->> 2)::bigint
   AND jobs.execution = (dead.value ->> 3)::bigint
   AND jobs.seq = (dead.value ->> 4)::bigint
ON CONFLICT (part, instance_id, incarnation, execution, seq) DO UPDATE SET
    queue_no = excluded.queue_no,
    attempt = excluded.attempt,
    lost = excluded.lost,
    priority = excluded.priority,
    created_ms = excluded.created_ms,
    died_ms = excluded.died_ms,
    session = excluded.session,
    failures = excluded.failures,
    policy = excluded.policy,
    input = excluded.input;
WHEN 'correct_wakes' THEN
UPDATE perdure.live
SET wake_at_ms = (
    SELECT min(inbox.effective_at_ms)
    FROM perdure.inbox
    WHERE inbox.part = live.part
      AND inbox.instance_id = live.instance_id
      AND inbox.timer_key IS NOT NULL
)
FROM jsonb_array_elements(these_rows) AS unsure (value)
WHERE live.part = ANY (ARRAY[(unsure.value ->> 0)::smallint])
  AND live.instance_id = unsure.value ->> 1;
WHEN 'delete_dead_jobs_of' THEN
DELETE FROM perdure.dead_jobs
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE dead_jobs.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND dead_jobs.instance_id = gone.value ->> 1;
WHEN 'delete_execution_jobs' THEN
DELETE FROM perdure.jobs
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE jobs.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND jobs.instance_id = gone.value ->> 1
  AND jobs.incarnation = (gone.value ->> 2)::bigint
  AND jobs.execution = (gone.value ->> 3)::bigint;
WHEN 'delete_execution_messages' THEN
DELETE FROM perdure.inbox
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE inbox.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND inbox.instance_id = gone.value ->> 1
  AND inbox.execution = (gone.value ->> 3)::bigint;
WHEN 'delete_feed' THEN
WITH unnumbered AS (
    DELETE FROM perdure.feed_new
    USING jsonb_array_elements(these_rows) AS gone (value)
    WHERE feed_new.instance_id = ANY (ARRAY[gone.value ->> 1])
)
DELETE FROM perdure.feed
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE feed.instance_id = ANY (ARRAY[gone.value ->> 1]);
WHEN 'delete_history' THEN
DELETE FROM perdure.history
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE history.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND history.instance_id = gone.value ->> 1
  AND history.incarnation = (gone.value ->> 2)::bigint;
WHEN 'delete_inbox' THEN
DELETE FROM perdure.inbox
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE inbox.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND inbox.instance_id = gone.value ->> 1;
WHEN 'delete_instances' THEN
DELETE FROM perdure.instances
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE instances.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND instances.instance_id = gone.value ->> 1
  AND instances.incarnation = (gone.value ->> 2)::bigint;
WHEN 'delete_jobs' THEN
DELETE FROM perdure.jobs
USING (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS incarnation,
        (value ->> 3)::bigint AS execution,
        (value ->> 4)::bigint AS seq
    FROM jsonb_array_elements(these_rows)
    ORDER BY 1, 2, 3, 4, 5
) AS gone
WHERE jobs.part = ANY (ARRAY[gone.part])
  AND jobs.instance_id = gone.instance_id
  AND jobs.incarnation = gone.incarnation
  AND jobs.execution = gone.execution
  AND jobs.seq = gone.seq;
WHEN 'delete_jobs_of' THEN
DELETE FROM perdure.jobs
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE jobs.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND jobs.instance_id = gone.value ->> 1;
WHEN 'delete_kv' THEN
DELETE FROM perdure.kv
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE kv.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND kv.instance_id = gone.value ->> 1;
WHEN 'delete_live' THEN
DELETE FROM perdure.live
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE live.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND live.instance_id = gone.value ->> 1;
WHEN 'delete_messages' THEN
DELETE FROM perdure.inbox
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE inbox.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND inbox.instance_id = gone.value ->> 1
  AND inbox.no = (gone.value ->> 2)::bigint;
WHEN 'delete_observations' THEN
DELETE FROM perdure.observations
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE observations.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND observations.instance_id = gone.value ->> 1;
WHEN 'delete_receipts' THEN
DELETE FROM perdure.receipts
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE receipts.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND receipts.instance_id = gone.value ->> 1;
WHEN 'delete_reports' THEN
DELETE FROM perdure.reports
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE reports.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND reports.instance_id = gone.value ->> 1;
WHEN 'delete_snapshots' THEN
DELETE FROM perdure.snapshots
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE snapshots.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND snapshots.instance_id = gone.value ->> 1;
WHEN 'delete_timers' THEN
DELETE FROM perdure.inbox
USING (
    SELECT timer.place
    FROM (
        SELECT
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id,
            (value ->> 2) COLLATE "C" AS timer_key
        FROM jsonb_array_elements(these_rows)
        ORDER BY 1, 2, 3
    ) AS wanted
    CROSS JOIN LATERAL (
        SELECT inbox.ctid AS place
        FROM perdure.inbox
        WHERE inbox.part = wanted.part
          AND inbox.instance_id = wanted.instance_id
          AND inbox.timer_key = wanted.timer_key
        OFFSET 0
    ) AS timer
) AS gone
WHERE inbox.ctid = gone.place;
WHEN 'delete_unique_keys' THEN
DELETE FROM perdure.unique_keys
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE unique_keys.instance_id = ANY (ARRAY[gone.value ->> 1]);
WHEN 'delete_values' THEN
DELETE FROM perdure.kv
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE kv.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND kv.instance_id = gone.value ->> 1
  AND kv.key = gone.value ->> 2;
WHEN 'end_instances' THEN
UPDATE perdure.instances
SET execution = (ended.value ->> 3)::bigint,
    status = ended.value ->> 4,
    last_commit = (ended.value ->> 5)::bigint,
    digest = substr(these_bodies, (ended.value ->> 6)::int, (ended.value ->> 7)::int),
    reason = substr(these_bodies, (ended.value ->> 8)::int, (ended.value ->> 9)::int),
    output = substr(these_bodies, (ended.value ->> 10)::int, (ended.value ->> 11)::int),
    updated_ms = at_ms,
    ended_ms = at_ms
FROM jsonb_array_elements(these_rows) AS ended (value)
WHERE instances.part = ANY (ARRAY[(ended.value ->> 0)::smallint])
  AND instances.instance_id = ended.value ->> 1
  AND instances.incarnation = (ended.value ->> 2)::bigint
  AND instances.ended_ms IS NULL;
WHEN 'free_children' THEN
UPDATE perdure.instances
SET parent_id = NULL,
    parent_incarnation = NULL
FROM jsonb_array_elements(these_rows) AS wanted (value)
WHERE instances.parent_id = ANY (ARRAY[wanted.value ->> 1])
  AND instances.parent_incarnation = (wanted.value ->> 2)::bigint;
WHEN 'free_unique_keys' THEN
DELETE FROM perdure.unique_keys
USING jsonb_array_elements(these_rows) AS gone (value)
WHERE unique_keys.instance_id = ANY (ARRAY[gone.value ->> 0])
  AND unique_keys.scope = gone.value ->> 1;
WHEN 'insert_events' THEN
INSERT INTO perdure.history (
    part, instance_id, incarnation, execution, seq, kind, at_ms, body, commit_id
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    (value ->> 4)::bigint, value ->> 5, (value ->> 6)::bigint,
    substr(these_bodies, (value ->> 7)::int, (value ->> 8)::int), (value ->> 9)::bigint
FROM jsonb_array_elements(these_rows);
WHEN 'insert_feed' THEN
INSERT INTO perdure.feed_new (
    part, instance_id, incarnation, execution, seq, definition_no, tag, version, cause, correlation
)
SELECT
    (fed.value ->> 0)::smallint, fed.value ->> 1, (fed.value ->> 2)::bigint,
    (fed.value ->> 3)::bigint, (fed.value ->> 4)::bigint, (fed.value ->> 5)::bigint,
    fed.value ->> 6, (fed.value ->> 7)::bigint, fed.value ->> 8, fed.value ->> 9
FROM jsonb_array_elements(these_rows) WITH ORDINALITY AS fed (value, position)
ORDER BY fed.position;
WHEN 'insert_instances' THEN
INSERT INTO perdure.instances (
    part, instance_id, incarnation, execution, definition_no, status, created_ms, updated_ms,
    parent_id, parent_incarnation, last_commit, input
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, 1, (value ->> 3)::bigint,
    'running', (value ->> 4)::bigint, (value ->> 4)::bigint, value ->> 5, (value ->> 6)::bigint, 0,
    substr(these_bodies, (value ->> 7)::int, (value ->> 8)::int)
FROM jsonb_array_elements(these_rows);
WHEN 'insert_jobs' THEN
INSERT INTO perdure.jobs (
    part, instance_id, incarnation, execution, seq, queue_no, visible_at_ms, token, worker_id,
    attempt, lost, priority, created_ms, session, policy, input, start_by_ms
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    (value ->> 4)::bigint, (value ->> 5)::bigint, (value ->> 6)::bigint, (value ->> 7)::bigint,
    value ->> 8, (value ->> 9)::bigint, 0, (value ->> 10)::bigint, at_ms, value ->> 11,
    substr(these_bodies, (value ->> 12)::int, (value ->> 13)::int),
    substr(these_bodies, (value ->> 14)::int, (value ->> 15)::int),
    (value ->> 16)::bigint
FROM jsonb_array_elements(these_rows);
WHEN 'insert_messages' THEN
INSERT INTO perdure.inbox (
    part, instance_id, no, effective_at_ms, rank, execution, kind, timer_key, body
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    (value ->> 4)::smallint, (value ->> 5)::bigint, value ->> 6, value ->> 7,
    substr(these_bodies, (value ->> 8)::int, (value ->> 9)::int)
FROM jsonb_array_elements(these_rows);
WHEN 'insert_observations' THEN
INSERT INTO perdure.observations (
    part, instance_id, no, at_ms, tag, outcome, input_id, input, rejection
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    value ->> 4, value ->> 5, value ->> 6,
    substr(these_bodies, (value ->> 7)::int, (value ->> 8)::int),
    substr(these_bodies, (value ->> 9)::int, (value ->> 10)::int)
FROM jsonb_array_elements(these_rows);
WHEN 'insert_passing' THEN
INSERT INTO perdure.live (
    part, instance_id, incarnation, execution, next_seq, lease, lease_until_ms, last_no, last_at_ms,
    last_commit, attempts
)
SELECT (value ->> 0)::smallint, value ->> 1, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM jsonb_array_elements(these_rows)
ORDER BY 1, 2;
WHEN 'insert_receipts' THEN
INSERT INTO perdure.receipts (part, instance_id, message_id, made_ms, no)
SELECT
    (value ->> 0)::smallint, value ->> 1, value ->> 2, at_ms, (value ->> 3)::bigint
FROM jsonb_array_elements(these_rows);
WHEN 'insert_unique_keys' THEN
INSERT INTO perdure.unique_keys (part, scope, key, instance_id, incarnation)
SELECT
    (value ->> 0)::smallint, (value ->> 1) COLLATE "C", (value ->> 2) COLLATE "C", value ->> 3,
    (value ->> 4)::bigint
FROM jsonb_array_elements(these_rows)
ORDER BY 1, 2, 3;
WHEN 'move_instances' THEN
UPDATE perdure.instances
SET execution = (moved.value ->> 3)::bigint,
    definition_no = (moved.value ->> 4)::bigint,
    input = coalesce(
        substr(these_bodies, (moved.value ->> 5)::int, (moved.value ->> 6)::int),
        instances.input
    ),
    updated_ms = at_ms
FROM jsonb_array_elements(these_rows) AS moved (value)
WHERE instances.part = ANY (ARRAY[(moved.value ->> 0)::smallint])
  AND instances.instance_id = moved.value ->> 1
  AND instances.incarnation = (moved.value ->> 2)::bigint
  AND instances.ended_ms IS NULL;
WHEN 'put_kv' THEN
INSERT INTO perdure.kv (part, instance_id, key, updated_ms, value)
SELECT
    (value ->> 0)::smallint, value ->> 1, value ->> 2, (value ->> 3)::bigint,
    substr(these_bodies, (value ->> 4)::int, (value ->> 5)::int)
FROM jsonb_array_elements(these_rows)
ON CONFLICT (part, instance_id, key) DO UPDATE SET
    updated_ms = excluded.updated_ms,
    value = excluded.value;
WHEN 'put_live' THEN
WITH given AS MATERIALIZED (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS definition_no,
        (value ->> 3)::bigint AS incarnation,
        (value ->> 4)::bigint AS execution,
        (value ->> 5)::bigint AS next_seq,
        (value ->> 6)::bigint AS wake_at_ms,
        (value ->> 7)::bigint AS lease,
        (value ->> 8)::bigint AS lease_until_ms,
        value ->> 9 AS home,
        (value ->> 10)::bigint AS last_no,
        (value ->> 11)::bigint AS last_at_ms,
        (value ->> 12)::bigint AS last_commit,
        (value ->> 13)::bigint AS attempts,
        value ->> 14 AS blocked_by,
        value ->> 15 = '1' AS is_stored
    FROM jsonb_array_elements(these_rows)
    ORDER BY 1, 2
),
changed AS (
    UPDATE perdure.live
    SET definition_no = given.definition_no,
        incarnation = given.incarnation,
        execution = given.execution,
        next_seq = given.next_seq,
        wake_at_ms = given.wake_at_ms,
        lease = given.lease,
        lease_until_ms = given.lease_until_ms,
        home = given.home,
        last_no = given.last_no,
        last_at_ms = given.last_at_ms,
        last_commit = given.last_commit,
        attempts = given.attempts,
        blocked_by = given.blocked_by
    FROM given
    WHERE given.is_stored
      AND live.part = ANY (ARRAY[given.part])
      AND live.instance_id = given.instance_id
)
INSERT INTO perdure.live (
    part, instance_id, definition_no, incarnation, execution, next_seq, wake_at_ms, lease,
    lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by
)
SELECT
    part, instance_id, definition_no, incarnation, execution, next_seq, wake_at_ms, lease,
    lease_until_ms, home, last_no, last_at_ms, last_commit, attempts, blocked_by
FROM given
WHERE NOT is_stored;
WHEN 'put_outcomes' THEN
WITH given AS MATERIALIZED (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2) COLLATE "C" AS message_id,
        (value ->> 3)::int AS body_begin,
        (value ->> 4)::int AS body_length
    FROM jsonb_array_elements(these_rows)
    ORDER BY 1, 2, 3
),
decided AS (
    UPDATE perdure.receipts
    SET made_ms = at_ms,
        outcome = substr(these_bodies, given.body_begin, given.body_length)
    FROM given
    WHERE receipts.part = ANY (ARRAY[given.part])
      AND receipts.instance_id = given.instance_id
      AND receipts.message_id = given.message_id
      AND receipts.outcome IS NULL
    RETURNING given.*
),
fresh AS (
    SELECT part, instance_id, message_id, body_begin, body_length FROM given
    EXCEPT
    SELECT part, instance_id, message_id, body_begin, body_length FROM decided
)
INSERT INTO perdure.receipts (part, instance_id, message_id, made_ms, outcome)
SELECT
    part, instance_id, message_id, at_ms,
    substr(these_bodies, body_begin, body_length)
FROM fresh
ORDER BY part, instance_id, message_id;
WHEN 'put_reports' THEN
INSERT INTO perdure.reports (part, instance_id, version, updated_ms, value)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    substr(these_bodies, (value ->> 4)::int, (value ->> 5)::int)
FROM jsonb_array_elements(these_rows)
ON CONFLICT (part, instance_id) DO UPDATE SET
    version = reports.version + excluded.version,
    updated_ms = excluded.updated_ms,
    value = excluded.value;
WHEN 'put_snapshots' THEN
INSERT INTO perdure.snapshots (
    part, instance_id, incarnation, execution, seq, schema, version, made_ms, body
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, (value ->> 3)::bigint,
    (value ->> 4)::bigint, (value ->> 5)::bigint, (value ->> 6)::bigint, (value ->> 7)::bigint,
    substr(these_bodies, (value ->> 8)::int, (value ->> 9)::int)
FROM jsonb_array_elements(these_rows)
ON CONFLICT (part, instance_id) DO UPDATE SET
    incarnation = excluded.incarnation,
    execution = excluded.execution,
    seq = excluded.seq,
    schema = excluded.schema,
    version = excluded.version,
    made_ms = excluded.made_ms,
    body = excluded.body;
WHEN 'refuse_unborn' THEN
INSERT INTO perdure.live (
    part, instance_id, incarnation, execution, next_seq, lease, lease_until_ms, last_no, last_at_ms,
    last_commit, attempts
)
SELECT instances.part, instances.instance_id, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM jsonb_array_elements(these_rows) AS made (value)
JOIN perdure.instances
    ON instances.part = ANY (ARRAY[(made.value ->> 0)::smallint])
   AND instances.instance_id = made.value ->> 1;
WHEN 'requeue_jobs' THEN
UPDATE perdure.jobs
SET token = 0,
    worker_id = NULL,
    visible_at_ms = (requeued.value ->> 5)::bigint,
    attempt = (requeued.value ->> 6)::bigint,
    failures = substr(
        these_bodies, (requeued.value ->> 7)::int, (requeued.value ->> 8)::int
    ),
    details = coalesce(
        substr(these_bodies, (requeued.value ->> 9)::int, (requeued.value ->> 10)::int),
        jobs.details
    )
FROM jsonb_array_elements(these_rows) AS requeued (value)
WHERE jobs.part = ANY (ARRAY[(requeued.value ->> 0)::smallint])
  AND jobs.instance_id = requeued.value ->> 1
  AND jobs.incarnation = (requeued.value ->> 2)::bigint
  AND jobs.execution = (requeued.value ->> 3)::bigint
  AND jobs.seq = (requeued.value ->> 4)::bigint;
WHEN 'set_statuses' THEN
UPDATE perdure.instances
SET status = changed.value ->> 3,
    reason = substr(these_bodies, (changed.value ->> 4)::int, (changed.value ->> 5)::int),
    updated_ms = at_ms
FROM jsonb_array_elements(these_rows) AS changed (value)
WHERE instances.part = ANY (ARRAY[(changed.value ->> 0)::smallint])
  AND instances.instance_id = changed.value ->> 1
  AND instances.incarnation = (changed.value ->> 2)::bigint
  AND instances.ended_ms IS NULL;
WHEN 'touch_sessions' THEN
UPDATE perdure.sessions
SET used_ms = at_ms
FROM (
    SELECT (value ->> 0)::smallint AS part, (value ->> 1) COLLATE "C" AS session
    FROM jsonb_array_elements(these_rows)
    ORDER BY 1, 2
) AS used
WHERE sessions.part = ANY (ARRAY[used.part])
  AND sessions.session = used.session
  AND sessions.until_ms > at_ms;
ELSE RAISE EXCEPTION 'perdure has no statement %', names[place];
END CASE;
END LOOP;
END
$function$;
