-- Store items of streams, whose indexes were given before.
-- Params: rows, JSON [[part, instance_id, stream, before_next, items, incarnation, execution, seq,
-- attempt, token, at_ms, body_begin, body_length], ...]; bodies. Returns: nothing.
INSERT INTO perdure_streams (
    part, instance_id, stream, last_index, items, incarnation, execution, seq, attempt, token,
    at_ms, body
)
SELECT
    value ->> 0, value ->> 1, value ->> 2, heads.next_index - (value ->> 3), value ->> 4,
    value ->> 5, value ->> 6, value ->> 7, value ->> 8, value ->> 9, value ->> 10,
    substr(:bodies, value ->> 11, value ->> 12)
FROM (SELECT value FROM json_each(:rows) LIMIT -1)
CROSS JOIN perdure_stream_heads AS heads
WHERE heads.part = value ->> 0
  AND heads.instance_id = value ->> 1
  AND heads.stream = value ->> 2;
