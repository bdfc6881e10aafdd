-- Put messages on their way that are sent inside a user's transaction.
-- Params: rows, JSON [[part, instance_id, body_begin, body_length], ...]; bodies; now_ms.
-- Returns: the id of the transaction, as text.
WITH added AS (
    INSERT INTO perdure.arrivals (part, instance_id, made_ms, body)
    SELECT
        (value ->> 0)::smallint, value ->> 1, :now_ms::bigint,
        substr(:bodies::bytea, (value ->> 2)::int, (value ->> 3)::int)
    FROM jsonb_array_elements(:rows::jsonb) WITH ORDINALITY AS given (value, position)
    ORDER BY position
)
SELECT pg_current_xact_id()::text;
