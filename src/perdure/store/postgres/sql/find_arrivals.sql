-- Find messages on their way that can be put into inboxes now, in the order they were sent.
-- Params: key, a number made of the schema's name; limit. Returns: part, no, instance_id, body.
-- One transaction at a time moves them, or a later message could come before an earlier one; who
-- comes second finds nothing. An instance that somebody has locked, as an open transaction of a
-- user's may for long, is left out with all its messages: nobody waits here.
WITH alone AS MATERIALIZED (
    SELECT pg_try_advisory_xact_lock(1885696613, (:key::bigint - 2147483648)::integer) AS is_alone
),
waiting AS MATERIALIZED (
    SELECT part, no, instance_id, body
    FROM perdure.arrivals
    WHERE (SELECT is_alone FROM alone)
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
SELECT waiting.part, waiting.no, waiting.instance_id, waiting.body
FROM waiting
WHERE EXISTS (
    SELECT FROM locked
    WHERE locked.part = waiting.part AND locked.instance_id = waiting.instance_id
) OR NOT EXISTS (
    SELECT FROM perdure.live
    WHERE live.part = ANY (ARRAY[waiting.part]) AND live.instance_id = waiting.instance_id
)
ORDER BY waiting.no;
