-- Load how an instance ended that is to be reset.
-- Params: part; instance_id. Returns: incarnation, execution, definition_no, digest, or no row.
-- Its row is locked already: see load_instances.
SELECT incarnation, execution, definition_no, digest
FROM perdure.instances
WHERE part = :part::smallint
  AND instance_id = :instance_id::text
  AND ended_ms IS NOT NULL;
