-- Keep what running jobs say of their progress; NULL: as before.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, token, details_begin,
-- details_length, progress_begin, progress_length], ...]; bodies; now_ms. Returns: nothing.
-- A transaction that has a job locked ends it or takes it over: what it says then is of no use.
-- ANY: see load_live.
WITH held AS MATERIALIZED (
    SELECT jobs.part, jobs.instance_id, jobs.incarnation, jobs.execution, jobs.seq,
        given.details_begin, given.details_length, given.progress_begin, given.progress_length
    FROM (
        SELECT
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id,
            (value ->> 2)::bigint AS incarnation,
            (value ->> 3)::bigint AS execution,
            (value ->> 4)::bigint AS seq,
            (value ->> 5)::bigint AS token,
            (value ->> 6)::int AS details_begin,
            (value ->> 7)::int AS details_length,
            (value ->> 8)::int AS progress_begin,
            (value ->> 9)::int AS progress_length
        FROM jsonb_array_elements(:rows::jsonb)
    ) AS given
    JOIN perdure.jobs
        ON jobs.part = ANY (ARRAY[given.part])
       AND jobs.instance_id = given.instance_id
       AND jobs.incarnation = given.incarnation
       AND jobs.execution = given.execution
       AND jobs.seq = given.seq
       AND jobs.token = given.token
    WHERE jobs.token <> 0
      AND jobs.visible_at_ms > :now_ms::bigint
    ORDER BY given.part, given.instance_id, given.incarnation, given.execution, given.seq
    FOR UPDATE OF jobs SKIP LOCKED
)
UPDATE perdure.jobs
SET details = coalesce(
        substr(:bodies::bytea, held.details_begin, held.details_length), jobs.details
    ),
    progress = coalesce(
        substr(:bodies::bytea, held.progress_begin, held.progress_length), jobs.progress
    ),
    beat_ms = :now_ms::bigint
FROM held
WHERE jobs.part = ANY (ARRAY[held.part])
  AND jobs.instance_id = held.instance_id
  AND jobs.incarnation = held.incarnation
  AND jobs.execution = held.execution
  AND jobs.seq = held.seq;
