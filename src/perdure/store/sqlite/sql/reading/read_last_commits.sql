-- Read which turns have written the last events before places of histories.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, before_seq], ...]. Returns: one
-- JSON text, [[index of the key, commit_id or null], ...].
SELECT json_group_array(json_array(wanted.key, (
    SELECT history.commit_id
    FROM history
    WHERE history.part = wanted.value ->> 0
      AND history.instance_id = wanted.value ->> 1
      AND history.incarnation = wanted.value ->> 2
      AND history.execution = wanted.value ->> 3
      AND history.seq < wanted.value ->> 4
      AND history.commit_id IS NOT NULL
    ORDER BY history.seq DESC
    LIMIT 1
)))
FROM json_each(:keys) AS wanted;
