-- Read where all stored states stand, for the checker.
-- Params: none. Returns: instance_id, incarnation, execution, seq, schema, version, body.
SELECT instance_id, incarnation, execution, seq, schema, version, body
FROM perdure.snapshots
ORDER BY instance_id;
