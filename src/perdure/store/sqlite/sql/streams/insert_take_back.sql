-- Take back what has an index or a higher one.
-- Params: part; instance_id; stream; last_index (its own); discards_from; at_ms. Returns: nothing.
INSERT INTO perdure_streams (
    part, instance_id, stream, last_index, items, discards_from, incarnation, execution, seq,
    attempt, token, at_ms, body
)
VALUES (
    :part, :instance_id, :stream, :last_index, 0, :discards_from, 0, 0, 0, 0, 0, :at_ms, x'5b5d'
);
