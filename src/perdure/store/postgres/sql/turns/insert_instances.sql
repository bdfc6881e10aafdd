-- Add the wide rows of instances that begin.
-- Params: rows, JSON [[part, instance_id, incarnation, definition_no, created_ms, parent_id,
-- parent_incarnation, input_begin, input_length], ...]; bodies. Returns: nothing.
INSERT INTO perdure.instances (
    part, instance_id, incarnation, execution, definition_no, status, created_ms, updated_ms,
    parent_id, parent_incarnation, last_commit, input
)
SELECT
    (value ->> 0)::smallint, value ->> 1, (value ->> 2)::bigint, 1, (value ->> 3)::bigint,
    'running', (value ->> 4)::bigint, (value ->> 4)::bigint, value ->> 5, (value ->> 6)::bigint, 0,
    substr(:bodies::bytea, (value ->> 7)::int, (value ->> 8)::int)
FROM jsonb_array_elements(:rows::jsonb);
