-- Commits on rows that the writer knows, with the functions of 0006.

-- Runs the statements of a commit, in the order in which they are given, if the rows that it was
-- decided on are still the same and nobody has locked them: live rows [part, instance_id, xid of
-- the transaction that wrote it last, last_commit] and jobs [part, instance_id, incarnation,
-- execution, seq, token]. Any change leaves another xmin; last_commit is for a server that has lost
-- transactions, when another one took over, and gives their ids again.
-- Returns the id of the transaction, or NULL if one of them has changed and nothing was written.
-- It is called outside a transaction, so everything that a transaction sets is set here.
CREATE FUNCTION perdure.write_known_2(
    live_rows jsonb,
    job_rows jsonb,
    names text[],
    packed jsonb[],
    blobs bytea[],
    at_ms bigint
) RETURNS text
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
SET jit = off
SET lock_timeout = '50ms'
SET search_path = pg_catalog, pg_temp
AS $function$
#variable_conflict use_column
DECLARE
    same_rows bigint := 0;
    same_jobs bigint := 0;
BEGIN
IF jsonb_array_length(live_rows) > 0 THEN
    SELECT count(*) INTO same_rows
    FROM (
        SELECT 1
        FROM (
            SELECT
                (value ->> 0)::smallint AS part,
                (value ->> 1) COLLATE "C" AS instance_id,
                (value ->> 2)::xid8::xid AS writer,
                (value ->> 3)::bigint AS last_commit
            FROM jsonb_array_elements(live_rows)
        ) AS known
        JOIN perdure.live
            ON live.part = ANY (ARRAY[known.part])
           AND live.instance_id = known.instance_id
        WHERE live.xmin = known.writer
          AND live.last_commit = known.last_commit
        ORDER BY known.part, known.instance_id
        FOR UPDATE OF live SKIP LOCKED
    ) AS locked;
END IF;
IF jsonb_array_length(job_rows) > 0 THEN
    SELECT count(*) INTO same_jobs
    FROM (
        SELECT 1
        FROM (
            SELECT
                (value ->> 0)::smallint AS part,
                (value ->> 1) COLLATE "C" AS instance_id,
                (value ->> 2)::bigint AS incarnation,
                (value ->> 3)::bigint AS execution,
                (value ->> 4)::bigint AS seq,
                (value ->> 5)::bigint AS token
            FROM jsonb_array_elements(job_rows)
        ) AS known
        JOIN perdure.jobs
            ON jobs.part = ANY (ARRAY[known.part])
           AND jobs.instance_id = known.instance_id
           AND jobs.incarnation = known.incarnation
           AND jobs.execution = known.execution
           AND jobs.seq = known.seq
        WHERE jobs.token = known.token
        ORDER BY
            known.part, known.instance_id, known.incarnation, known.execution, known.seq
        FOR UPDATE OF jobs SKIP LOCKED
    ) AS locked;
END IF;
IF same_rows < jsonb_array_length(live_rows) OR same_jobs < jsonb_array_length(job_rows) THEN
    RETURN NULL;
END IF;
PERFORM perdure.write_2(names, packed, blobs, at_ms);
RETURN pg_current_xact_id()::text;
END
$function$;
