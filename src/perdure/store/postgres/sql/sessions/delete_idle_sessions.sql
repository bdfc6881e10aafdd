-- Remove sessions that were found to be idle, if they still are.
-- Params: keys, JSON [[part, session], ...]; before_ms. Returns: nothing.
-- One that is taken meanwhile has a new lease, which is looked at again when its lock is free. A
-- job that is added meanwhile loses nothing: without a row, its session is any worker's to take.
DELETE FROM perdure.sessions
USING jsonb_array_elements(:keys::jsonb) AS idle (value)
WHERE sessions.part = (idle.value ->> 0)::smallint
  AND sessions.session = idle.value ->> 1
  AND sessions.until_ms <= :before_ms::bigint
  AND NOT EXISTS (
      SELECT 1
      FROM perdure.definitions
      JOIN perdure.jobs
          ON jobs.queue_no = definitions.definition_no
         AND jobs.session = sessions.session
      WHERE definitions.part = 0
        AND definitions.kind = 'activity'
  );
