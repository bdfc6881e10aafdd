-- Forget the delivered messages of an incarnation that is replaced.
-- Params: keys, JSON [[part, instance_id, incarnation], ...]. Returns: nothing.
-- ANY: see load_live.
DELETE FROM perdure.receipts
USING jsonb_array_elements(:keys::jsonb) AS gone (value)
WHERE receipts.part = ANY (ARRAY[(gone.value ->> 0)::smallint])
  AND receipts.instance_id = gone.value ->> 1;
