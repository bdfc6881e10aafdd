-- Find jobs that wait or whose lease ran out, longest waiting first, per queue.
-- Params: queues, JSON [[definition_no, losses_below], ...]; now_ms; limit. Returns: one JSON text,
-- for each queue [[part, instance_id, incarnation, execution, seq, visible_at_ms, losses], ...].
-- What still has a token was lost once more than its row says.
-- Those that were lost too often are passed over; there are never more than died workers had.
-- One index range per queue, so a backlog of what no code here serves costs nothing.
SELECT json_group_array(json((
    SELECT json_group_array(json_array(
        part, instance_id, incarnation, execution, seq, visible_at_ms, losses
    ))
    FROM (
        SELECT
            part, instance_id, incarnation, execution, seq, visible_at_ms,
            lost + (token <> 0) AS losses
        FROM jobs INDEXED BY jobs_by_time
        WHERE queue_no = wanted.value ->> 0
          AND session IS NULL
          AND visible_at_ms <= :now_ms
          AND lost + (token <> 0) < wanted.value ->> 1
        ORDER BY visible_at_ms
        LIMIT :limit
    )
)))
FROM json_each(:queues) AS wanted;
