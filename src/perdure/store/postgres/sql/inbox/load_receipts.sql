-- Tell which messages were delivered before, and which inputs were decided.
-- Params: keys, JSON [[part, instance_id, message_id], ...]. Returns: one JSON text, [[index of the
-- key, number in the inbox, whether it was decided], ...].
-- ANY: see load_live.
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1, receipts.no, receipts.outcome IS NOT NULL
)), '[]'::json)
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.receipts
    ON receipts.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND receipts.instance_id = wanted.value ->> 1
   AND receipts.message_id = wanted.value ->> 2;
