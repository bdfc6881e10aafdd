-- Store items of streams, whose indexes were given before.
-- Params: rows, JSON [[part, instance_id, stream, before_next, items, incarnation, execution, seq,
-- attempt, token, at_ms, body_begin, body_length], ...]; bodies. Returns: nothing.
INSERT INTO perdure.perdure_streams (
    part, instance_id, stream, last_index, items, incarnation, execution, seq, attempt, token,
    at_ms, body
)
SELECT
    (value ->> 0)::smallint, value ->> 1, value ->> 2,
    (
        SELECT heads.next_index
        FROM perdure.perdure_stream_heads AS heads
        WHERE heads.part = (value ->> 0)::smallint
          AND heads.instance_id = value ->> 1
          AND heads.stream = value ->> 2
    ) - (value ->> 3)::bigint,
    (value ->> 4)::bigint, (value ->> 5)::bigint, (value ->> 6)::bigint, (value ->> 7)::bigint,
    (value ->> 8)::bigint, (value ->> 9)::bigint, (value ->> 10)::bigint,
    substr(:bodies::bytea, (value ->> 11)::int, (value ->> 12)::int)
FROM jsonb_array_elements(:rows::jsonb);
