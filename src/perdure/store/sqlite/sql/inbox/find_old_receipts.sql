-- Find receipts that were made before a time and whose instance is not live.
-- Params: before_ms; limit. Returns: one JSON text, [[part, instance_id, message_id], ...].
-- Reads the whole table, so it is no part of a transaction that writes.
SELECT json_group_array(json_array(part, instance_id, message_id))
FROM (
    SELECT part, instance_id, message_id
    FROM receipts
    WHERE made_ms < :before_ms
      AND NOT EXISTS (
          SELECT 1
          FROM live
          WHERE live.part = receipts.part
            AND live.instance_id = receipts.instance_id
      )
    LIMIT :limit
);
