-- Tell which messages were delivered before.
-- Params: keys, JSON [[part, instance_id, message_id], ...]. Returns: one JSON text, [index of the
-- key, ...].
SELECT json_group_array(wanted.key)
FROM json_each(:keys) AS wanted
CROSS JOIN receipts
WHERE receipts.part = wanted.value ->> 0
  AND receipts.instance_id = wanted.value ->> 1
  AND receipts.message_id = wanted.value ->> 2;
