-- Store items of streams, whose indexes were given before.
-- Params: rows, JSON [[part, instance_id, stream, before_next, items, incarnation, execution, seq,
-- attempt, token, at_ms, body_begin, body_length], ...]; bodies. Returns: nothing.
-- ANY: see load_live.
INSERT INTO perdure.perdure_streams (
    part, instance_id, stream, last_index, items, incarnation, execution, seq, attempt, token,
    at_ms, body
)
SELECT
    (value ->> 0)::smallint, value ->> 1, value ->> 2, heads.next_index - (value ->> 3)::bigint,
    (value ->> 4)::bigint, (value ->> 5)::bigint, (value ->> 6)::bigint, (value ->> 7)::bigint,
    (value ->> 8)::bigint, (value ->> 9)::bigint, (value ->> 10)::bigint,
    substr(:bodies::bytea, (value ->> 11)::int, (value ->> 12)::int)
FROM jsonb_array_elements(:rows::jsonb) AS given (value)
JOIN perdure.perdure_stream_heads AS heads
    ON heads.part = ANY (ARRAY[(value ->> 0)::smallint])
   AND heads.instance_id = value ->> 1
   AND heads.stream = value ->> 2;
