-- Append events to the feed, in the order of the rows.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, definition_no, tag, version,
-- cause, correlation], ...]. Returns: nothing.
INSERT INTO feed (
    part, instance_id, incarnation, execution, seq, definition_no, tag, version, cause, correlation
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, value ->> 9
FROM (SELECT key, value FROM json_each(:rows) LIMIT -1)
WHERE true
ORDER BY key;
