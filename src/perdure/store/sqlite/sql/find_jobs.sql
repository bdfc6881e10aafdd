-- Find jobs that wait or whose lease ran out, longest waiting first, per queue.
-- Params: queues, JSON [definition_no, ...]; now_ms; limit. Returns: one JSON text, for each queue
-- [[part, instance_id, incarnation, execution, seq, visible_at_ms], ...].
-- One index range per queue, so a backlog of what nobody here serves costs nothing, and
-- nothing is read but the index.
SELECT json_group_array(json((
    SELECT json_group_array(json_array(
        part, instance_id, incarnation, execution, seq, visible_at_ms
    ))
    FROM (
        SELECT part, instance_id, incarnation, execution, seq, visible_at_ms
        FROM jobs INDEXED BY jobs_by_time
        WHERE queue_no = wanted.value
          AND session IS NULL
          AND visible_at_ms <= :now_ms
        ORDER BY visible_at_ms
        LIMIT :limit
    )
)))
FROM json_each(:queues) AS wanted;
