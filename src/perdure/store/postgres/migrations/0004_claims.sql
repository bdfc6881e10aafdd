-- Made by tools/make_functions.py from the files in sql/. Do not edit.
--
-- Claims turns as one transaction, if there is nothing to choose: all that are ready fit into the
-- claim, and none of them is a suspect. Otherwise, or if the time that it is asked to go by is not
-- the database's, nothing is leased, and the claim is made in steps. Each statement sees what was
-- committed before it began: the messages are read after the rows were locked.
-- The lock is for a claim whose answer is lost: it is waited for until this is over.
-- It is called outside a transaction, so everything that a transaction sets is set here.
CREATE FUNCTION perdure.claim_1(
    these_definitions jsonb,
    this_worker text,
    at_ms bigint,
    off_by_ms bigint,
    strange_ms bigint,
    lost_below bigint,
    at_most bigint,
    suspect_from bigint,
    this_lease bigint,
    lasts_ms bigint,
    most_messages bigint,
    most_bytes bigint
) RETURNS bytea
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET search_path = pg_catalog, pg_temp
SET enable_bitmapscan = off
SET jit = off
SET lock_timeout = '50ms'
AS $function$
#variable_conflict use_column
DECLARE
    told_ms bigint := floor(extract(EPOCH FROM clock_timestamp())::numeric * 1000::numeric)::bigint;
    candidates json;
    found_keys jsonb;
    found_count bigint;
    has_suspects boolean;
    leased_rows json;
    messages json := '[]'::json;
    bodies bytea;
BEGIN
IF abs(told_ms - at_ms) > off_by_ms THEN
    RETURN convert_to('[false]'::text, 'UTF8'::name) || '\x00'::bytea;
END IF;
PERFORM pg_advisory_xact_lock(this_lease);
candidates := (
WITH found AS MATERIALIZED (
    SELECT wanted.position, ready.*
    FROM jsonb_array_elements(these_definitions) WITH ORDINALITY AS wanted (value, position)
    CROSS JOIN LATERAL (
        SELECT
            live.part, live.instance_id, live.definition_no, live.incarnation, live.execution,
            live.next_seq, live.last_commit, live.attempts, live.last_no, live.wake_at_ms
        FROM perdure.live
        WHERE live.definition_no = (wanted.value ->> 0)::bigint
          AND live.wake_at_ms <= at_ms
          AND live.attempts < lost_below
          AND (live.blocked_by IS NULL
               OR (live.blocked_by <> '*'
                   AND strpos(live.blocked_by, wanted.value ->> 1) = 0))
          AND (live.home IS NULL
               OR live.home = this_worker
               OR live.wake_at_ms <= strange_ms
               OR NOT EXISTS (
                   SELECT 1
                   FROM perdure.workers
                   WHERE workers.part = 0
                     AND workers.worker_id = live.home
               ))
        ORDER BY live.wake_at_ms
        LIMIT at_most
        FOR UPDATE OF live SKIP LOCKED
    ) AS ready
)
SELECT coalesce(json_agg((
    SELECT coalesce(json_agg(json_build_array(
        part, instance_id, definition_no, incarnation, execution, next_seq, last_commit, attempts,
        last_no
    ) ORDER BY wake_at_ms), '[]'::json)
    FROM found
    WHERE found.position = wanted.position
) ORDER BY wanted.position), '[]'::json)
FROM jsonb_array_elements(these_definitions) WITH ORDINALITY AS wanted (value, position)
);
SELECT
    count(*),
    coalesce(bool_or((turn.value ->> 7)::bigint >= suspect_from), false),
    jsonb_agg(
        jsonb_build_array(turn.value -> 0, turn.value -> 1)
        ORDER BY each_definition.place, turn.place
    )
INTO found_count, has_suspects, found_keys
FROM jsonb_array_elements(candidates::jsonb) WITH ORDINALITY AS each_definition (value, place)
CROSS JOIN LATERAL jsonb_array_elements(each_definition.value)
    WITH ORDINALITY AS turn (value, place);
IF found_count > at_most OR has_suspects THEN
    RETURN convert_to('[false]'::text, 'UTF8'::name) || '\x00'::bytea;
END IF;
IF found_count > 0 THEN
WITH leased AS (
UPDATE perdure.live
SET home = this_worker,
    lease = this_lease,
    lease_until_ms = lasts_ms,
    wake_at_ms = lasts_ms,
    attempts = live.attempts + 1
FROM jsonb_array_elements(found_keys) AS claimed (value)
WHERE live.part = ANY (ARRAY[(claimed.value ->> 0)::smallint])
  AND live.instance_id = claimed.value ->> 1
RETURNING
    live.instance_id,
    live.xmin::text,
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
)
SELECT json_agg(row_to_json(leased)) INTO leased_rows FROM leased;
SELECT visible.* INTO messages, bodies
FROM (
SELECT
    coalesce(json_agg(json_build_array(
        key, position, length(body), visible, no, effective_at_ms, execution, kind, timer_key
    )), '[]'::json),
    string_agg(body, ''::bytea)
FROM (
    SELECT
        wanted.position - 1 AS key,
        inbox.*,
        count(*) OVER (PARTITION BY wanted.position) AS visible,
        row_number() OVER applied AS position,
        sum(length(inbox.body)) OVER applied - length(inbox.body) AS bytes_before
    FROM jsonb_array_elements(found_keys) WITH ORDINALITY AS wanted (value, position)
    JOIN perdure.inbox
        ON inbox.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
       AND inbox.instance_id = wanted.value ->> 1
    WHERE inbox.rank < 2 OR inbox.effective_at_ms <= at_ms
    WINDOW applied AS (
        PARTITION BY wanted.position
        ORDER BY
            inbox.rank > 0, least(inbox.no, 0), inbox.effective_at_ms, inbox.rank, inbox.no
    )
) AS visible_messages
WHERE position <= most_messages
  AND bytes_before <= most_bytes
) AS visible;
END IF;
RETURN
    convert_to(
        json_build_array(
            true, candidates, coalesce(leased_rows, '[]'::json), messages
        )::text,
        'UTF8'::name
    )
    || '\x00'::bytea
    || coalesce(bodies, ''::bytea);
END
$function$;
-- End of what tools/make_functions.py has made.
