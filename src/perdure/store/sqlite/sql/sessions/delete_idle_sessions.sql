-- Remove sessions that were found to be idle, if they still are.
-- Params: keys, JSON [[part, session], ...]; before_ms. Returns: nothing.
-- A text column first, and casts: without both, SQLite 3.40 searches by `part` alone.
DELETE FROM sessions
WHERE (session, part) IN (
    SELECT
        CAST(value ->> 1 AS TEXT),
        CAST(value ->> 0 AS INTEGER)
    FROM json_each(:keys)
)
  AND until_ms <= :before_ms
  AND NOT EXISTS (
      SELECT 1
      FROM definitions
      CROSS JOIN jobs INDEXED BY jobs_by_session
      WHERE definitions.kind = 'activity'
        AND jobs.queue_no = definitions.definition_no
        AND jobs.session = sessions.session
  );
