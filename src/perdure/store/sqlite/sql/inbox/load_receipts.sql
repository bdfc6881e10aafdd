-- Tell which messages were delivered before, and which inputs were decided.
-- Params: keys, JSON [[part, instance_id, message_id], ...]. Returns: one JSON text, [[index of the
-- key, number in the inbox, whether it was decided], ...].
SELECT json_group_array(json_array(wanted.key, receipts.no, receipts.outcome IS NOT NULL))
FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN receipts
WHERE receipts.part = wanted.value ->> 0
  AND receipts.instance_id = wanted.value ->> 1
  AND receipts.message_id = wanted.value ->> 2;
