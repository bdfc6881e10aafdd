-- Lock the live and the wide rows of instances, unless another transaction has locked one.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: whether all that are there are locked.
-- Without waiting: a row may be locked by a transaction of a user, open for long.
-- ANY: see load_live.
WITH wanted AS MATERIALIZED (
    SELECT DISTINCT
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id
    FROM jsonb_array_elements(:keys::jsonb)
),
locked_live AS MATERIALIZED (
    SELECT 1
    FROM wanted
    JOIN perdure.live
        ON live.part = ANY (ARRAY[wanted.part])
       AND live.instance_id = wanted.instance_id
    FOR UPDATE OF live SKIP LOCKED
),
locked_wide AS MATERIALIZED (
    SELECT 1
    FROM wanted
    JOIN perdure.instances
        ON instances.part = ANY (ARRAY[wanted.part])
       AND instances.instance_id = wanted.instance_id
    FOR UPDATE OF instances SKIP LOCKED
)
SELECT
    (SELECT count(*) FROM locked_live) = (
        SELECT count(*)
        FROM wanted
        JOIN perdure.live
            ON live.part = ANY (ARRAY[wanted.part])
           AND live.instance_id = wanted.instance_id
    )
    AND (SELECT count(*) FROM locked_wide) = (
        SELECT count(*)
        FROM wanted
        JOIN perdure.instances
            ON instances.part = ANY (ARRAY[wanted.part])
           AND instances.instance_id = wanted.instance_id
    );
