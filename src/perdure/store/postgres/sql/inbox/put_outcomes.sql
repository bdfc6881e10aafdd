-- Keep what inputs came to, delivered before or not. What an input came to never changes.
-- Params: rows, JSON [[part, instance_id, message_id, outcome_begin, outcome_length], ...]; bodies;
-- now_ms. Returns: nothing.
-- The caller has seen that none of them is decided. One that another has decided, or delivered,
-- meanwhile is not found undecided: it is inserted, and that fails. An instance that is not there
-- has no row to lock, so this is what keeps the first outcome.
-- ANY: see load_live.
WITH given AS MATERIALIZED (
    SELECT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2) COLLATE "C" AS message_id,
        (value ->> 3)::int AS outcome_begin,
        (value ->> 4)::int AS outcome_length
    FROM jsonb_array_elements(:rows::jsonb)
    ORDER BY 1, 2, 3
),
decided AS (
    UPDATE perdure.receipts
    SET made_ms = :now_ms::bigint,
        outcome = substr(:bodies::bytea, given.outcome_begin, given.outcome_length)
    FROM given
    WHERE receipts.part = ANY (ARRAY[given.part])
      AND receipts.instance_id = given.instance_id
      AND receipts.message_id = given.message_id
      AND receipts.outcome IS NULL
    RETURNING given.*
),
fresh AS (
    SELECT part, instance_id, message_id, outcome_begin, outcome_length FROM given
    EXCEPT
    SELECT part, instance_id, message_id, outcome_begin, outcome_length FROM decided
)
INSERT INTO perdure.receipts (part, instance_id, message_id, made_ms, outcome)
SELECT
    part, instance_id, message_id, :now_ms::bigint,
    substr(:bodies::bytea, outcome_begin, outcome_length)
FROM fresh
ORDER BY part, instance_id, message_id;
