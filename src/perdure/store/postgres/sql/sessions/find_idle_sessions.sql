-- Find sessions whose lease has run out and that no job needs.
-- Params: before_ms; limit. Returns: one JSON text, [[part, session], ...].
-- Reads the whole table, so it is no part of a transaction that writes. Jobs are found by queue and
-- session, so each session is looked for once per definition.
SELECT coalesce(json_agg(json_build_array(found.part, found.session)), '[]'::json)
FROM (
    SELECT sessions.part, sessions.session
    FROM perdure.sessions
    WHERE sessions.until_ms <= :before_ms::bigint
      AND NOT EXISTS (
          SELECT 1
          FROM perdure.definitions
          JOIN perdure.jobs
              ON jobs.queue_no = definitions.definition_no
             AND jobs.session = sessions.session
          WHERE definitions.part = 0
            AND definitions.kind = 'activity'
      )
    LIMIT :limit::bigint
) AS found;
