-- Forget updates and promises that came to an instance and that it had not taken when it ended.
-- Params: part; instance_id; heard, JSON [message_id, ...] (updates that it had taken);
-- unkept, JSON [message_id, ...] (promises that it had not heard of). Returns: nothing.
DELETE FROM perdure.receipts
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND outcome IS NULL
  AND (
      (
          substr(message_id, 1, 7) = 'update:'
          AND message_id NOT IN (SELECT jsonb_array_elements_text(:heard::jsonb))
      )
      OR message_id IN (SELECT jsonb_array_elements_text(:unkept::jsonb))
  );
