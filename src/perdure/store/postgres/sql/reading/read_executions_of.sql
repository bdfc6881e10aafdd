-- Read the executions of the present incarnation of an instance, as far as their histories are
-- kept.
-- Params: part; instance_id. Returns: one JSON text, [[execution, first_at_ms, last_at_ms, events,
-- last_kind], ...], in any order.
-- Counted in the index alone; of each execution two events are looked up.
SELECT coalesce(
    json_agg(json_build_array(
        counted.execution, first.at_ms, last.at_ms, counted.events, last.kind
    )),
    '[]'::json
)
FROM (
    SELECT
        history.incarnation,
        history.execution,
        min(history.seq) AS first_seq,
        max(history.seq) AS last_seq,
        count(*) AS events
    FROM perdure.instances
    JOIN perdure.history
        ON history.part = instances.part
       AND history.instance_id = instances.instance_id
       AND history.incarnation = instances.incarnation
    WHERE instances.part = :part::smallint
      AND instances.instance_id = :instance_id::text
    GROUP BY history.incarnation, history.execution
) AS counted
JOIN perdure.history AS first
    ON first.part = :part::smallint
   AND first.instance_id = :instance_id::text
   AND first.incarnation = counted.incarnation
   AND first.execution = counted.execution
   AND first.seq = counted.first_seq
JOIN perdure.history AS last
    ON last.part = :part::smallint
   AND last.instance_id = :instance_id::text
   AND last.incarnation = counted.incarnation
   AND last.execution = counted.execution
   AND last.seq = counted.last_seq;
