-- Read where the stored states of a range of ids stand.
-- Params: after_part, after_id (behind this id); to_part, to_id (up to this one); with_payloads
-- (or bodies without a byte). Returns: instance_id, incarnation, execution, seq, schema, version,
-- body.
SELECT
    instance_id,
    incarnation,
    execution,
    seq,
    schema,
    version,
    CASE WHEN :with_payloads::boolean THEN body ELSE ''::bytea END
FROM perdure.snapshots
WHERE @slice_range
ORDER BY part, instance_id;
