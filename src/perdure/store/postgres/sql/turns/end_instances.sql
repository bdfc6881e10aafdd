-- Write the outcomes of instances that ended.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, status, last_commit,
-- digest_begin, digest_length, reason_begin, reason_length, output_begin, output_length], ...];
-- bodies; now_ms. Returns: nothing.
-- `ended_ms IS NULL`: a terminal status never changes (S9).
-- ANY: see load_live.
UPDATE perdure.instances
SET execution = (ended.value ->> 3)::bigint,
    status = ended.value ->> 4,
    last_commit = (ended.value ->> 5)::bigint,
    digest = substr(:bodies::bytea, (ended.value ->> 6)::int, (ended.value ->> 7)::int),
    reason = substr(:bodies::bytea, (ended.value ->> 8)::int, (ended.value ->> 9)::int),
    output = substr(:bodies::bytea, (ended.value ->> 10)::int, (ended.value ->> 11)::int),
    updated_ms = :now_ms::bigint,
    ended_ms = :now_ms::bigint
FROM jsonb_array_elements(:rows::jsonb) AS ended (value)
WHERE instances.part = ANY (ARRAY[(ended.value ->> 0)::smallint])
  AND instances.instance_id = ended.value ->> 1
  AND instances.incarnation = (ended.value ->> 2)::bigint
  AND instances.ended_ms IS NULL;
