-- Read events in the order of their commits, up to a number of rows and bytes.
-- Params: after; upto (looks at what is between these positions); max_events; max_bytes (the event
-- that passes it is still returned); deciders, tags (JSON lists, or NULL for all). Returns: one
-- row of a JSON text [[pos, decider, instance_id, incarnation, tag, seq, kind, at_ms, length of the
-- body, version, cause, correlation], ...], a blob of the bodies in the same order, and the newest
-- position that was given.
-- The counter and the events it counts are one commit, so up to the newest position nothing will
-- appear any more. An event that a damaged history has no more has no kind: it is still counted,
-- so that none behind it is skipped.
SELECT
    coalesce(
        json_agg(
            json_build_array(
                fed.pos, fed.name, fed.instance_id, fed.incarnation, fed.tag, fed.seq, fed.kind,
                fed.at_ms, length(fed.body), fed.version, fed.cause, fed.correlation
            )
            ORDER BY fed.pos
        ),
        '[]'::json
    ),
    string_agg(fed.body, ''::bytea ORDER BY fed.pos),
    (SELECT coalesce(max(feed.pos), 0) FROM perdure.feed)
FROM (
    SELECT
        found.*,
        history.kind,
        history.at_ms,
        coalesce(history.body, ''::bytea) AS body,
        coalesce(sum(length(history.body)) OVER (
            ORDER BY found.pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS bytes_before
    FROM (
        SELECT feed.*, definitions.name
        FROM perdure.feed
        JOIN perdure.definitions
            ON definitions.part = 0
           AND definitions.definition_no = feed.definition_no
        WHERE feed.pos > :after::bigint
          AND feed.pos <= :upto::bigint
          AND (:deciders::jsonb IS NULL
               OR definitions.name IN (SELECT jsonb_array_elements_text(:deciders::jsonb)))
          AND (:tags::jsonb IS NULL
               OR feed.tag IN (SELECT jsonb_array_elements_text(:tags::jsonb)))
        ORDER BY feed.pos
        LIMIT :max_events::bigint
    ) AS found
    LEFT JOIN perdure.history
        ON history.part = found.part
       AND history.instance_id = found.instance_id
       AND history.incarnation = found.incarnation
       AND history.execution = found.execution
       AND history.seq = found.seq
) AS fed
WHERE fed.bytes_before <= :max_bytes::bigint;
