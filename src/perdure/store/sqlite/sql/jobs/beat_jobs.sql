-- Keep what running jobs say of their progress; NULL: as before.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, token, details_begin,
-- details_length, progress_begin, progress_length], ...]; bodies; now_ms. Returns: nothing.
UPDATE jobs
SET details = coalesce(substr(:bodies, beat.value ->> 6, beat.value ->> 7), jobs.details),
    progress = coalesce(substr(:bodies, beat.value ->> 8, beat.value ->> 9), jobs.progress),
    beat_ms = :now_ms
FROM (SELECT value FROM json_each(:rows) LIMIT -1) AS beat
WHERE jobs.part = beat.value ->> 0
  AND jobs.instance_id = beat.value ->> 1
  AND jobs.incarnation = beat.value ->> 2
  AND jobs.execution = beat.value ->> 3
  AND jobs.seq = beat.value ->> 4
  AND jobs.token = beat.value ->> 5
  AND jobs.token <> 0
  AND jobs.visible_at_ms > :now_ms;
