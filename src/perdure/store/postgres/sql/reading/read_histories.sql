-- Read events of executions in order, up to a number of rows and bytes.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, after_seq, last_seq], ...];
-- max_events; max_bytes (the event that passes it is still returned). Returns: one row of a JSON
-- text [[index of the key, seq, length of the body, kind, at_ms], ...] and a blob of the bodies in
-- the same order.
SELECT
    coalesce(
        json_agg(
            json_build_array(
                read.position - 1, read.seq, length(read.body), read.kind, read.at_ms
            )
            ORDER BY read.position, read.seq
        ),
        '[]'::json
    ),
    string_agg(read.body, ''::bytea ORDER BY read.position, read.seq)
FROM (
    SELECT
        found.*,
        coalesce(sum(length(found.body)) OVER (
            ORDER BY found.position, found.seq
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS bytes_before
    FROM (
        SELECT wanted.position, history.seq, history.kind, history.at_ms, history.body
        FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
        JOIN perdure.history
            ON history.part = (wanted.value ->> 0)::smallint
           AND history.instance_id = wanted.value ->> 1
           AND history.incarnation = (wanted.value ->> 2)::bigint
           AND history.execution = (wanted.value ->> 3)::bigint
           AND history.seq > (wanted.value ->> 4)::bigint
           AND history.seq <= (wanted.value ->> 5)::bigint
        ORDER BY wanted.position, history.seq
        LIMIT :max_events::bigint
    ) AS found
) AS read
WHERE read.bytes_before <= :max_bytes::bigint;
