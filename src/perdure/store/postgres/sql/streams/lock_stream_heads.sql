-- Read the streams of instances, and let no other send to them until the end of the transaction.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: stream, next_index.
-- In the order of put_stream_heads, and before rows of the streams are touched: so none waits in a
-- circle. ANY: see load_live.
SELECT heads.stream, heads.next_index
FROM jsonb_array_elements(:keys::jsonb) AS given (value)
JOIN perdure.perdure_stream_heads AS heads
    ON heads.part = ANY (ARRAY[(given.value ->> 0)::smallint])
   AND heads.instance_id = given.value ->> 1
ORDER BY heads.part, heads.instance_id, heads.stream
FOR UPDATE OF heads;
