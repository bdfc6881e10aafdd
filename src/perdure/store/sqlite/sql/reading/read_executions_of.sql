-- Read the executions of the present incarnation of an instance, as far as their histories are
-- kept.
-- Params: part; instance_id. Returns: one JSON text, [[execution, first_at_ms, last_at_ms, events,
-- last_kind], ...], in any order.
-- Counted in the index alone; of each execution two events are looked up.
SELECT json_group_array(json_array(
    counted.execution, first.at_ms, last.at_ms, counted.events, last.kind
))
FROM (
    SELECT
        history.incarnation,
        history.execution,
        min(history.seq) AS first_seq,
        max(history.seq) AS last_seq,
        count(*) AS events
    FROM instances
    CROSS JOIN history
    WHERE instances.part = :part
      AND instances.instance_id = :instance_id
      AND history.part = :part
      AND history.instance_id = :instance_id
      AND history.incarnation = instances.incarnation
    GROUP BY history.incarnation, history.execution
) AS counted
CROSS JOIN history AS first
CROSS JOIN history AS last
WHERE first.part = :part
  AND first.instance_id = :instance_id
  AND first.incarnation = counted.incarnation
  AND first.execution = counted.execution
  AND first.seq = counted.first_seq
  AND last.part = :part
  AND last.instance_id = :instance_id
  AND last.incarnation = counted.incarnation
  AND last.execution = counted.execution
  AND last.seq = counted.last_seq;
