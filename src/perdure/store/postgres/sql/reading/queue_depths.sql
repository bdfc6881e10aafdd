-- Tell what waits, by definition: turns of orchestrations and jobs of activities.
-- Params: now_ms. Returns: one JSON text, [[kind, name, variant, behaviour, ready, later, leased,
-- oldest_ready_ms], ...], in any order.
-- What waits without a time (for a message, for other code) is in no index and does not count. A
-- lease that ran out is ready.
SELECT coalesce(
    json_agg(json_build_array(
        definitions.kind, definitions.name, definitions.variant, definitions.behaviour,
        counted.ready, counted.later, counted.leased, counted.oldest_ready_ms
    )),
    '[]'::json
)
FROM (
    SELECT
        waiting.definition_no,
        count(*) FILTER (WHERE waiting.at_ms <= :now_ms::bigint) AS ready,
        count(*) FILTER (WHERE waiting.at_ms > :now_ms::bigint AND NOT waiting.is_leased) AS later,
        count(*) FILTER (WHERE waiting.at_ms > :now_ms::bigint AND waiting.is_leased) AS leased,
        min(waiting.at_ms) FILTER (WHERE waiting.at_ms <= :now_ms::bigint) AS oldest_ready_ms
    FROM (
        SELECT live.definition_no, live.wake_at_ms AS at_ms, live.lease <> 0 AS is_leased
        FROM perdure.live
        WHERE live.definition_no IS NOT NULL
          AND live.wake_at_ms IS NOT NULL
        UNION ALL
        SELECT jobs.queue_no, jobs.visible_at_ms, jobs.token <> 0
        FROM perdure.jobs
    ) AS waiting
    GROUP BY waiting.definition_no
) AS counted
JOIN perdure.definitions
    ON definitions.part = 0
   AND definitions.definition_no = counted.definition_no;
