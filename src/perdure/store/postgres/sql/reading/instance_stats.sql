-- Tell how much is stored for an instance.
-- Params: part; instance_id. Returns: executions, events, event_bytes, messages, timers, jobs,
-- kv_keys, kv_bytes, observations, snapshot_bytes; or no row. An execution that has no event yet
-- counts.
SELECT
    recorded.executions + (recorded.events = 0)::int,
    recorded.events,
    recorded.event_bytes,
    waiting.messages,
    waiting.timers,
    (
        SELECT count(*)
        FROM perdure.jobs
        WHERE jobs.part = :part::smallint
          AND jobs.instance_id = :instance_id::text
          AND jobs.incarnation = instances.incarnation
    ),
    kept.keys,
    kept.bytes,
    (
        SELECT count(*)
        FROM perdure.observations
        WHERE observations.part = :part::smallint
          AND observations.instance_id = :instance_id::text
    ),
    (
        SELECT coalesce(sum(length(snapshots.body)), 0)
        FROM perdure.snapshots
        WHERE snapshots.part = :part::smallint
          AND snapshots.instance_id = :instance_id::text
    )
FROM perdure.instances
LEFT JOIN perdure.live
    ON live.part = instances.part
   AND live.instance_id = instances.instance_id
   AND live.incarnation = instances.incarnation
CROSS JOIN LATERAL (
    SELECT
        count(DISTINCT history.execution) AS executions,
        count(*) FILTER (WHERE history.execution = present.execution) AS events,
        coalesce(
            sum(length(history.body)) FILTER (WHERE history.execution = present.execution), 0
        ) AS event_bytes
    FROM (SELECT coalesce(live.execution, instances.execution) AS execution) AS present
    LEFT JOIN perdure.history
        ON history.part = :part::smallint
       AND history.instance_id = :instance_id::text
       AND history.incarnation = instances.incarnation
) AS recorded
CROSS JOIN LATERAL (
    SELECT
        count(*) FILTER (WHERE inbox.timer_key IS NULL) AS messages,
        count(inbox.timer_key) AS timers
    FROM perdure.inbox
    WHERE inbox.part = :part::smallint
      AND inbox.instance_id = :instance_id::text
) AS waiting
CROSS JOIN LATERAL (
    SELECT count(*) AS keys, coalesce(sum(length(kv.value)), 0) AS bytes
    FROM perdure.kv
    WHERE kv.part = :part::smallint
      AND kv.instance_id = :instance_id::text
) AS kept
WHERE instances.part = :part::smallint
  AND instances.instance_id = :instance_id::text;
