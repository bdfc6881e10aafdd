-- Read what is new of instances since they were remembered: their live rows, and of those that have
-- moved on in the same execution which turn has written the last events before, and the events
-- behind these, up to a number of rows and bytes.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, next_seq, commit_id], ...], as
-- remembered; max_events; max_bytes (the event that passes it is still returned). Returns: one row
-- of a JSON text [[index of the key, commit_id or null, writer, column, ...], ...], a JSON text
-- [[index of the key, seq, length of the body, kind, at_ms], ...] and a blob of the bodies in the
-- same order. The writer is the transaction that has written the live row last.
-- ANY: see load_live.
WITH found AS MATERIALIZED (
    SELECT
        wanted.key,
        wanted.next_seq AS known_seq,
        live.xmin AS writer,
        live.incarnation = wanted.incarnation
            AND live.execution = wanted.execution
            AND live.last_commit <> wanted.commit_id
            AND live.next_seq >= wanted.next_seq AS has_moved,
        live.*
    FROM (
        SELECT
            position - 1 AS key,
            (value ->> 0)::smallint AS part,
            (value ->> 1) COLLATE "C" AS instance_id,
            (value ->> 2)::bigint AS incarnation,
            (value ->> 3)::bigint AS execution,
            (value ->> 4)::bigint AS next_seq,
            (value ->> 5)::bigint AS commit_id
        FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS given (value, position)
    ) AS wanted
    JOIN perdure.live
        ON live.part = ANY (ARRAY[wanted.part])
       AND live.instance_id = wanted.instance_id
)
SELECT
    (
        SELECT coalesce(json_agg(json_build_array(
            found.key,
            CASE WHEN found.has_moved THEN (
                SELECT history.commit_id
                FROM perdure.history
                WHERE history.part = found.part
                  AND history.instance_id = found.instance_id
                  AND history.incarnation = found.incarnation
                  AND history.execution = found.execution
                  AND history.seq < found.known_seq
                  AND history.commit_id IS NOT NULL
                ORDER BY history.seq DESC
                LIMIT 1
            ) END,
            found.writer::text,
            found.definition_no,
            found.incarnation,
            found.execution,
            found.next_seq,
            found.wake_at_ms,
            found.lease,
            found.lease_until_ms,
            found.home,
            found.last_no,
            found.last_at_ms,
            found.last_commit,
            found.attempts,
            found.blocked_by
        )), '[]'::json)
        FROM found
    ),
    coalesce(
        json_agg(
            json_build_array(read.key, read.seq, length(read.body), read.kind, read.at_ms)
            ORDER BY read.key, read.seq
        ),
        '[]'::json
    ),
    string_agg(read.body, ''::bytea ORDER BY read.key, read.seq)
FROM (
    SELECT
        new.*,
        coalesce(sum(length(new.body)) OVER (
            ORDER BY new.key, new.seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS bytes_before
    FROM (
        SELECT found.key, history.seq, history.kind, history.at_ms, history.body
        FROM found
        JOIN perdure.history
            ON history.part = found.part
           AND history.instance_id = found.instance_id
           AND history.incarnation = found.incarnation
           AND history.execution = found.execution
           AND history.seq >= found.known_seq
        WHERE found.has_moved
        ORDER BY found.key, history.seq
        LIMIT :max_events::bigint
    ) AS new
) AS read
WHERE read.bytes_before <= :max_bytes::bigint;
