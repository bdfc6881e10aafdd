-- Take back what has an index or a higher one.
-- Params: part; instance_id; stream; last_index (its own); discards_from; at_ms. Returns: nothing.
INSERT INTO perdure.perdure_streams (
    part, instance_id, stream, last_index, items, discards_from, incarnation, execution, seq,
    attempt, token, at_ms, body
)
VALUES (
    :part::smallint, :instance_id::text, :stream::text, :last_index::bigint, 0,
    :discards_from::bigint, 0, 0, 0, 0, 0, :at_ms::bigint, '\x5b5d'::bytea
);
