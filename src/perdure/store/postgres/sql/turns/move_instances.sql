-- Have wide rows follow instances that go on under another definition or in the next execution.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, definition_no, input_begin,
-- input_length], ...]; bodies; now_ms. Returns: nothing.
-- ANY: see load_live.
UPDATE perdure.instances
SET execution = (moved.value ->> 3)::bigint,
    definition_no = (moved.value ->> 4)::bigint,
    input = coalesce(
        substr(:bodies::bytea, (moved.value ->> 5)::int, (moved.value ->> 6)::int),
        instances.input
    ),
    updated_ms = :now_ms::bigint
FROM jsonb_array_elements(:rows::jsonb) AS moved (value)
WHERE instances.part = ANY (ARRAY[(moved.value ->> 0)::smallint])
  AND instances.instance_id = moved.value ->> 1
  AND instances.incarnation = (moved.value ->> 2)::bigint
  AND instances.ended_ms IS NULL;
