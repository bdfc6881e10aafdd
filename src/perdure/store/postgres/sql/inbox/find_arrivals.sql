-- Find messages on their way, in the order they were sent, and which can be put into inboxes now.
-- Params: key, a number made of the schema's name; after, the last one that was seen; limit; busy,
-- JSON [instance_id, ...], whose messages have to wait and are left out.
-- Returns: part, no, instance_id, body; NULL for a body that has to wait.
-- One transaction at a time moves them, or a later message could come before an earlier one; the
-- second finds nothing. What is for an instance that another transaction has locked, as one of a
-- user's may for long, is left where it is: this does not wait for it.
WITH alone AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(1885696613, (:key::bigint - 2147483648)::integer) AS is_alone
),
waiting AS MATERIALIZED (
    SELECT part, no, instance_id, body
    FROM perdure.arrivals
    WHERE (SELECT is_alone FROM alone)
      AND no > :after::bigint
      AND instance_id NOT IN (SELECT value FROM jsonb_array_elements_text(:busy::jsonb))
    ORDER BY no
    LIMIT :limit::bigint
),
locked AS MATERIALIZED (
    SELECT live.part, live.instance_id
    FROM (SELECT DISTINCT part, instance_id FROM waiting) AS wanted
    JOIN perdure.live
        ON live.part = ANY (ARRAY[wanted.part])
       AND live.instance_id = wanted.instance_id
    FOR UPDATE OF live SKIP LOCKED
)
SELECT
    waiting.part,
    waiting.no,
    waiting.instance_id,
    CASE
        WHEN EXISTS (
            SELECT FROM locked
            WHERE locked.part = waiting.part AND locked.instance_id = waiting.instance_id
        ) OR NOT EXISTS (
            SELECT FROM perdure.live
            WHERE live.part = ANY (ARRAY[waiting.part]) AND live.instance_id = waiting.instance_id
        ) THEN waiting.body
    END
FROM waiting
ORDER BY waiting.no;
