-- Have wide rows follow instances that go on under another definition or in the next execution.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, definition_no, input_begin,
-- input_length], ...]; bodies; now_ms. Returns: nothing.
UPDATE instances
SET execution = moved.value ->> 3,
    definition_no = moved.value ->> 4,
    input = coalesce(substr(:bodies, moved.value ->> 5, moved.value ->> 6), instances.input),
    updated_ms = :now_ms
FROM (SELECT value FROM json_each(:rows) LIMIT -1) AS moved
WHERE instances.part = moved.value ->> 0
  AND instances.instance_id = moved.value ->> 1
  AND instances.incarnation = moved.value ->> 2
  AND instances.ended_ms IS NULL;
