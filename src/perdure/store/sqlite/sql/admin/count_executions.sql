-- Count the executions of incarnations that have a history.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: how many.
SELECT count(*)
FROM (
    SELECT DISTINCT wanted.key, history.execution
    FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
    CROSS JOIN history
    WHERE history.part = wanted.value ->> 0
      AND history.instance_id = wanted.value ->> 1
      AND history.incarnation = wanted.value ->> 2
);
