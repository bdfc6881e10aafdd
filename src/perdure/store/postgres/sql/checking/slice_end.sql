-- Tell where a range of ids ends that begins behind an id and has not too many rows.
-- Params: after_part, after_id; max_events, max_bytes (of their bodies); max_rows (of each other
-- table). Returns: one JSON text, [[part, instance_id], ...]: the range ends with the lowest of
-- these, or with the last id there is. An instance is never cut in two, however much it has.
SELECT json_build_array(
    (
        SELECT json_build_array(counted.part, counted.instance_id)
        FROM (
            SELECT
                read.part,
                read.instance_id,
                row_number() OVER so_far AS events,
                sum(read.bytes) OVER so_far AS bytes
            FROM (
                SELECT part, instance_id, incarnation, execution, seq, length(body) AS bytes
                FROM perdure.history
                WHERE (part, instance_id) > (:after_part::smallint, :after_id::text)
                ORDER BY part, instance_id, incarnation, execution, seq
                LIMIT :max_events::bigint
            ) AS read
            WINDOW so_far AS (
                ORDER BY read.part, read.instance_id, read.incarnation, read.execution, read.seq
            )
        ) AS counted
        WHERE counted.events = :max_events::bigint
           OR counted.bytes > :max_bytes::bigint
        ORDER BY counted.events
        LIMIT 1
    ),
    (
        SELECT json_build_array(part, instance_id)
        FROM perdure.instances
        WHERE (part, instance_id) > (:after_part::smallint, :after_id::text)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows::bigint
    ),
    (
        SELECT json_build_array(part, instance_id)
        FROM perdure.live
        WHERE (part, instance_id) > (:after_part::smallint, :after_id::text)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows::bigint
    ),
    (
        SELECT json_build_array(part, instance_id)
        FROM perdure.inbox
        WHERE (part, instance_id) > (:after_part::smallint, :after_id::text)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows::bigint
    ),
    (
        SELECT json_build_array(part, instance_id)
        FROM perdure.jobs
        WHERE (part, instance_id) > (:after_part::smallint, :after_id::text)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows::bigint
    ),
    (
        SELECT json_build_array(part, instance_id)
        FROM perdure.kv
        WHERE (part, instance_id) > (:after_part::smallint, :after_id::text)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows::bigint
    ),
    (
        SELECT json_build_array(part, instance_id)
        FROM perdure.receipts
        WHERE (part, instance_id) > (:after_part::smallint, :after_id::text)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows::bigint
    ),
    (
        SELECT json_build_array(part, instance_id)
        FROM perdure.observations
        WHERE (part, instance_id) > (:after_part::smallint, :after_id::text)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows::bigint
    ),
    (
        SELECT json_build_array(part, instance_id)
        FROM perdure.perdure_streams
        WHERE (part, instance_id) > (:after_part::smallint, :after_id::text)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows::bigint
    )
);
