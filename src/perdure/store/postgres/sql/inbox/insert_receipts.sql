-- Remember which messages were delivered.
-- Params: rows, JSON [[part, instance_id, message_id, no], ...]; now_ms. Returns: nothing.
INSERT INTO perdure.receipts (part, instance_id, message_id, made_ms, no)
SELECT
    (value ->> 0)::smallint, value ->> 1, value ->> 2, :now_ms::bigint, (value ->> 3)::bigint
FROM jsonb_array_elements(:rows::jsonb);
