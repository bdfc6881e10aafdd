-- Give indexes to items of streams.
-- Params: rows, JSON [[part, instance_id, stream, items], ...]. Returns: nothing.
INSERT INTO perdure_stream_heads (part, instance_id, stream, next_index)
SELECT value ->> 0, value ->> 1, value ->> 2, 1 + (value ->> 3)
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
WHERE true
ON CONFLICT (part, instance_id, stream) DO UPDATE SET
    next_index = perdure_stream_heads.next_index + excluded.next_index - 1;
