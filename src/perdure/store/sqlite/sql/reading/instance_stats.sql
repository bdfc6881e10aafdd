-- Tell how much is stored for an instance.
-- Params: part; instance_id. Returns: executions, events, event_bytes, messages, timers, jobs,
-- kv_keys, kv_bytes, observations, snapshot_bytes; or no row. An execution that has no event yet
-- counts.
WITH present AS (
    SELECT instances.incarnation, coalesce(live.execution, instances.execution) AS execution
    FROM instances
    LEFT JOIN live
        ON live.part = instances.part
       AND live.instance_id = instances.instance_id
       AND live.incarnation = instances.incarnation
    WHERE instances.part = :part
      AND instances.instance_id = :instance_id
)
SELECT
    (
        SELECT count(*)
        FROM (
            SELECT history.execution
            FROM history
            WHERE history.part = :part
              AND history.instance_id = :instance_id
              AND history.incarnation = present.incarnation
            UNION
            SELECT present.execution
        )
    ),
    (
        SELECT count(*)
        FROM history
        WHERE history.part = :part
          AND history.instance_id = :instance_id
          AND history.incarnation = present.incarnation
          AND history.execution = present.execution
    ),
    (
        SELECT coalesce(sum(length(history.body)), 0)
        FROM history
        WHERE history.part = :part
          AND history.instance_id = :instance_id
          AND history.incarnation = present.incarnation
          AND history.execution = present.execution
    ),
    (
        SELECT count(*)
        FROM inbox
        WHERE inbox.part = :part
          AND inbox.instance_id = :instance_id
          AND inbox.timer_key IS NULL
    ),
    (
        SELECT count(*)
        FROM inbox INDEXED BY inbox_by_timer
        WHERE inbox.part = :part
          AND inbox.instance_id = :instance_id
          AND inbox.timer_key IS NOT NULL
    ),
    (
        SELECT count(*)
        FROM jobs
        WHERE jobs.part = :part
          AND jobs.instance_id = :instance_id
          AND jobs.incarnation = present.incarnation
    ),
    (
        SELECT count(*)
        FROM kv
        WHERE kv.part = :part
          AND kv.instance_id = :instance_id
    ),
    (
        SELECT coalesce(sum(length(kv.value)), 0)
        FROM kv
        WHERE kv.part = :part
          AND kv.instance_id = :instance_id
    ),
    (
        SELECT count(*)
        FROM observations
        WHERE observations.part = :part
          AND observations.instance_id = :instance_id
    ),
    (
        SELECT coalesce(sum(length(snapshots.body)), 0)
        FROM snapshots
        WHERE snapshots.part = :part
          AND snapshots.instance_id = :instance_id
    )
FROM present;
