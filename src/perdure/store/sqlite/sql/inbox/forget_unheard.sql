-- Forget updates and promises that came to an instance and that it had not taken when it ended.
-- Params: part; instance_id; heard, JSON [message_id, ...] (updates that it had taken);
-- unkept, JSON [message_id, ...] (promises that it had not heard of). Returns: nothing.
DELETE FROM receipts
WHERE part = :part
  AND instance_id = :instance_id
  AND outcome IS NULL
  AND (
      (
          substr(message_id, 1, 7) = 'update:'
          AND message_id NOT IN (SELECT value FROM json_each(:heard))
      )
      OR message_id IN (SELECT value FROM json_each(:unkept))
  );
