-- Count the executions of incarnations that have a history.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: how many.
SELECT count(*)
FROM (
    SELECT DISTINCT wanted.position, history.execution
    FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
    JOIN perdure.history
        ON history.part = (wanted.value ->> 0)::smallint
       AND history.instance_id = wanted.value ->> 1
       AND history.incarnation = (wanted.value ->> 2)::bigint
) AS counted;
