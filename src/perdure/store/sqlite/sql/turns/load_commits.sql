-- Load which turns were accepted at places of histories.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: one JSON
-- text, [[index of the key, commit_id], ...]; none for what was written before commits were kept.
SELECT json_group_array(json_array(wanted.key, history.commit_id))
FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN history
WHERE history.part = wanted.value ->> 0
  AND history.instance_id = wanted.value ->> 1
  AND history.incarnation = wanted.value ->> 2
  AND history.execution = wanted.value ->> 3
  AND history.seq = wanted.value ->> 4
  AND history.commit_id IS NOT NULL;
