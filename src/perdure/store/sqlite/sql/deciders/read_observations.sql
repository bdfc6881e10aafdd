-- Read inputs that a decider was given, in order.
-- Params: part; instance_id; after, a number; limit. Returns: no, at_ms, tag, input, outcome,
-- rejection, input_id.
SELECT no, at_ms, tag, input, outcome, rejection, input_id
FROM observations
WHERE part = :part
  AND instance_id = :instance_id
  AND no > :after
ORDER BY no
LIMIT :limit;
