-- Append events to the feed, in the order of the rows.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, seq, definition_no, tag], ...].
-- Returns: nothing.
INSERT INTO feed (part, instance_id, incarnation, execution, seq, definition_no, tag)
SELECT
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
FROM json_each(:rows)
ORDER BY key;
