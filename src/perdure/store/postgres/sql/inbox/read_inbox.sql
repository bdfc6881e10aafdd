-- Read all messages of an instance, timers included, in the order they are applied.
-- Params: part; instance_id. Returns: no, effective_at_ms, kind, body, execution, timer_key.
SELECT no, effective_at_ms, kind, body, execution, timer_key
FROM perdure.inbox
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
ORDER BY rank > 0, least(no, 0), effective_at_ms, rank, no;
