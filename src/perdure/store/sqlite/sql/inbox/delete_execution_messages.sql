-- Remove what is addressed to executions that were followed by the next one: results and timers.
-- Params: keys, JSON [[part, instance_id, incarnation, execution], ...]. Returns: nothing.
DELETE FROM inbox
WHERE (instance_id, no, part) IN (
    SELECT inbox.instance_id, inbox.no, inbox.part
    FROM (SELECT value FROM json_each(:keys) LIMIT -1) AS gone
    CROSS JOIN inbox
    WHERE inbox.part = gone.value ->> 0
      AND inbox.instance_id = gone.value ->> 1
      AND inbox.execution = gone.value ->> 3
);
