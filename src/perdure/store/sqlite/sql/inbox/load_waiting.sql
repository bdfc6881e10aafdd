-- Load the numbers of all messages of instances, to see whether a turn has taken them all.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key, no,
-- rank], ...].
SELECT json_group_array(json_array(wanted.key, inbox.no, inbox.rank))
FROM json_each(:keys) AS wanted
CROSS JOIN inbox
WHERE inbox.part = wanted.value ->> 0
  AND inbox.instance_id = wanted.value ->> 1;
