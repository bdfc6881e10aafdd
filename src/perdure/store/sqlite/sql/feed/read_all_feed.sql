-- Read the whole feed in order, for the checker.
-- Params: none. Returns: instance_id, incarnation, execution, seq, tag.
SELECT instance_id, incarnation, execution, seq, tag
FROM feed
ORDER BY pos;
