-- Keep what running jobs say of their progress; NULL: as before.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, token, begin and length of
-- details and progress], ...]; bodies; now_ms. Returns: nothing.
-- In order of the key, so that this never waits for one who waits for this.
-- ANY: see load_live.
UPDATE perdure.jobs
SET details = coalesce(
        substr(:bodies::bytea, beat.details_begin, beat.details_length), jobs.details
    ),
    progress = coalesce(
        substr(:bodies::bytea, beat.progress_begin, beat.progress_length), jobs.progress
    ),
    beat_ms = :now_ms::bigint
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
    ORDER BY 1, 2, 3, 4, 5
) AS beat
WHERE jobs.part = ANY (ARRAY[beat.part])
  AND jobs.instance_id = beat.instance_id
  AND jobs.incarnation = beat.incarnation
  AND jobs.execution = beat.execution
  AND jobs.seq = beat.seq
  AND jobs.token = beat.token
  AND jobs.token <> 0
  AND jobs.visible_at_ms > :now_ms::bigint;
