-- Add the wide rows of instances that begin.
-- Params: rows, JSON [[part, instance_id, incarnation, definition_no, created_ms, parent_id,
-- parent_incarnation, input_begin, input_length], ...]; bodies. Returns: nothing.
INSERT INTO instances (
    part, instance_id, incarnation, execution, definition_no, status, created_ms, updated_ms,
    parent_id, parent_incarnation, last_commit, input
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, 1, value ->> 3, 'running', value ->> 4, value ->> 4,
    value ->> 5, value ->> 6, 0, substr(:bodies, value ->> 7, value ->> 8)
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true;
