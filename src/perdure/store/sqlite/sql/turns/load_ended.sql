-- Load how an instance ended that is to be reset.
-- Params: part; instance_id. Returns: incarnation, execution, definition_no, digest, or no row.
SELECT incarnation, execution, definition_no, digest
FROM instances
WHERE part = :part
  AND instance_id = :instance_id
  AND ended_ms IS NOT NULL;
