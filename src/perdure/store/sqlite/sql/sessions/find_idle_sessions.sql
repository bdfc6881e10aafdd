-- Find sessions whose lease has run out and that no job needs.
-- Params: before_ms; limit. Returns: one JSON text, [[part, session], ...].
-- Reads the whole table, so it is no part of a transaction that writes. Jobs are found by queue and
-- session, so each session is looked for once per definition.
SELECT json_group_array(json_array(part, session))
FROM (
    SELECT sessions.part, sessions.session
    FROM sessions
    WHERE sessions.until_ms <= :before_ms
      AND NOT EXISTS (
          SELECT 1
          FROM definitions
          CROSS JOIN jobs INDEXED BY jobs_by_session
          WHERE definitions.kind = 'activity'
            AND jobs.queue_no = definitions.definition_no
            AND jobs.session = sessions.session
      )
    LIMIT :limit
);
