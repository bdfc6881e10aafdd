-- Find receipts that were made before a time and whose instance is not live.
-- Params: before_ms; limit. Returns: one JSON text, [[part, instance_id, message_id], ...].
-- Reads the whole table, so it is no part of a transaction that writes.
SELECT coalesce(
    json_agg(json_build_array(found.part, found.instance_id, found.message_id)), '[]'::json
)
FROM (
    SELECT receipts.part, receipts.instance_id, receipts.message_id
    FROM perdure.receipts
    WHERE receipts.made_ms < :before_ms::bigint
      AND NOT EXISTS (
          SELECT 1
          FROM perdure.live
          WHERE live.part = receipts.part
            AND live.instance_id = receipts.instance_id
      )
    LIMIT :limit::bigint
) AS found;
