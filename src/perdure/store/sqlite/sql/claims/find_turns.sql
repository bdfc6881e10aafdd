-- Find instances that are ready or whose lease ran out, longest waiting first, per definition.
-- Params: definitions, JSON [[definition_no, code], ...]; worker_id; now_ms; home_ms; losses_below;
-- limit.
-- Returns: one JSON text, for each definition [[part, instance_id, definition_no, incarnation,
-- execution, next_seq, last_commit, attempts, last_no], ...].
-- One index range per definition, so a backlog of what no code here serves costs nothing, and
-- nothing is sorted. An instance of another home is left to it until home_ms, as long as that
-- worker has not retired. One that some code did not fit is taken only with other code.
-- Those that were claimed too often are passed over; there are never more than died workers had.
SELECT json_group_array(json((
    SELECT json_group_array(json_array(
        ready.part, ready.instance_id, ready.definition_no, ready.incarnation, ready.execution,
        ready.next_seq, ready.last_commit, ready.attempts, ready.last_no
    ))
    FROM (
        SELECT live.*
        FROM live INDEXED BY live_by_wake
        WHERE live.definition_no = wanted.value ->> 0
          AND live.wake_at_ms <= :now_ms
          AND live.attempts < :losses_below
          AND (live.blocked_by IS NULL
               OR (live.blocked_by <> '*'
                   AND instr(live.blocked_by, wanted.value ->> 1) = 0))
          AND (live.home IS NULL
               OR live.home = :worker_id
               OR live.wake_at_ms <= :home_ms
               OR NOT EXISTS (SELECT 1 FROM workers WHERE workers.worker_id = live.home))
        ORDER BY live.wake_at_ms
        LIMIT :limit
    ) AS ready
)))
FROM json_each(:definitions) AS wanted;
