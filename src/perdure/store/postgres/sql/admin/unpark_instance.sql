-- Show an instance that was let go as running.
-- Params: part; instance_id; incarnation; now_ms. Returns: nothing.
UPDATE perdure.instances
SET status = 'running',
    reason = NULL,
    updated_ms = :now_ms::bigint
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND incarnation = :incarnation::bigint
  AND ended_ms IS NULL;
