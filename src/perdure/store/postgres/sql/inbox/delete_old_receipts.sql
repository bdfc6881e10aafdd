-- Remove receipts that were found to be old, if they still are and their instance is not live.
-- Params: keys, JSON [[part, instance_id, message_id], ...]; before_ms. Returns: nothing.
DELETE FROM perdure.receipts
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE receipts.part = (gone.value ->> 0)::smallint
  AND receipts.instance_id = gone.value ->> 1
  AND receipts.message_id = gone.value ->> 2
  AND receipts.made_ms < :before_ms::bigint
  AND NOT EXISTS (
      SELECT 1
      FROM perdure.live
      WHERE live.part = receipts.part
        AND live.instance_id = receipts.instance_id
  );
