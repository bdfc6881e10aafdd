-- Tell where a range of ids ends that begins behind an id and has not too many rows.
-- Params: after_part, after_id; max_events, max_bytes (of their bodies); max_rows (of each other
-- table). Returns: one JSON text, [[part, instance_id], ...]: the range ends with the lowest of
-- these, or with the last id there is. An instance is never cut in two, however much it has.
SELECT json_array(
    json((
        SELECT json_array(counted.part, counted.instance_id)
        FROM (
            SELECT
                read.part,
                read.instance_id,
                row_number() OVER so_far AS events,
                sum(read.bytes) OVER so_far AS bytes
            FROM (
                SELECT part, instance_id, incarnation, execution, seq, length(body) AS bytes
                FROM history
                WHERE (part, instance_id) > (:after_part, :after_id)
                ORDER BY part, instance_id, incarnation, execution, seq
                LIMIT :max_events
            ) AS read
            WINDOW so_far AS (
                ORDER BY read.part, read.instance_id, read.incarnation, read.execution, read.seq
            )
        ) AS counted
        WHERE counted.events = :max_events
           OR counted.bytes > :max_bytes
        ORDER BY counted.events
        LIMIT 1
    )),
    json((
        SELECT json_array(part, instance_id)
        FROM instances
        WHERE (part, instance_id) > (:after_part, :after_id)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows
    )),
    json((
        SELECT json_array(part, instance_id)
        FROM live
        WHERE (part, instance_id) > (:after_part, :after_id)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows
    )),
    json((
        SELECT json_array(part, instance_id)
        FROM inbox
        WHERE (part, instance_id) > (:after_part, :after_id)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows
    )),
    json((
        SELECT json_array(part, instance_id)
        FROM jobs
        WHERE (part, instance_id) > (:after_part, :after_id)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows
    )),
    json((
        SELECT json_array(part, instance_id)
        FROM kv
        WHERE (part, instance_id) > (:after_part, :after_id)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows
    )),
    json((
        SELECT json_array(part, instance_id)
        FROM receipts
        WHERE (part, instance_id) > (:after_part, :after_id)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows
    )),
    json((
        SELECT json_array(part, instance_id)
        FROM observations
        WHERE (part, instance_id) > (:after_part, :after_id)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows
    )),
    json((
        SELECT json_array(part, instance_id)
        FROM perdure_streams
        WHERE (part, instance_id) > (:after_part, :after_id)
        ORDER BY part, instance_id
        LIMIT 1 OFFSET :max_rows
    ))
);
