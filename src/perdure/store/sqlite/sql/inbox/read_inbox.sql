-- Read all messages of an instance, timers included, in the order they are applied.
-- Params: part; instance_id. Returns: no, effective_at_ms, kind, body, execution, timer_key.
SELECT no, effective_at_ms, kind, body, execution, timer_key
FROM inbox
WHERE part = :part
  AND instance_id = :instance_id
ORDER BY rank > 0, min(no, 0), effective_at_ms, rank, no;
