-- Read events in the order of their commits, up to a number of rows and bytes.
-- Params: after; upto (looks at what is between these positions); max_events; max_bytes (the event
-- that passes it is still returned); deciders, tags (JSON lists, or NULL for all). Returns: one
-- row of a JSON text [[pos, decider, instance_id, incarnation, tag, seq, kind, at_ms, length of the
-- body, version, cause, correlation], ...], a blob of the bodies in the same order, and the newest
-- position of the feed or NULL.
-- An aggregate may see rows in any order, but both see the same. An event that a damaged history
-- has no more has no kind: it is still counted, so that none behind it is skipped.
SELECT
    json_group_array(json_array(
        pos, name, instance_id, incarnation, tag, seq, kind, at_ms, length(body),
        version, cause, correlation
    )),
    CAST(group_concat(body, '') AS BLOB),
    (SELECT max(pos) FROM feed)
FROM (
    SELECT
        found.*,
        history.kind,
        history.at_ms,
        coalesce(history.body, x'') AS body,
        coalesce(sum(length(history.body)) OVER (
            ORDER BY found.pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS bytes_before
    FROM (
        SELECT feed.*, definitions.name
        FROM feed
        CROSS JOIN definitions
        WHERE feed.pos > :after
          AND feed.pos <= :upto
          AND definitions.definition_no = feed.definition_no
          AND (:deciders IS NULL
               OR definitions.name IN (SELECT value FROM json_each(:deciders)))
          AND (:tags IS NULL
               OR feed.tag IN (SELECT value FROM json_each(:tags)))
        ORDER BY feed.pos
        LIMIT :max_events
    ) AS found
    LEFT JOIN history
        ON history.part = found.part
       AND history.instance_id = found.instance_id
       AND history.incarnation = found.incarnation
       AND history.execution = found.execution
       AND history.seq = found.seq
)
WHERE bytes_before <= :max_bytes;
