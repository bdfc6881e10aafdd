-- Show an instance that was let go as running.
-- Params: part; instance_id; incarnation; now_ms. Returns: nothing.
UPDATE instances
SET status = 'running',
    reason = NULL,
    updated_ms = :now_ms
WHERE part = :part
  AND instance_id = :instance_id
  AND incarnation = :incarnation
  AND ended_ms IS NULL;
