-- Write the outcomes of instances that ended.
-- Params: rows, JSON [[part, instance_id, incarnation, execution, status, last_commit,
-- digest_begin, digest_length, reason_begin, reason_length, output_begin, output_length], ...];
-- bodies; now_ms. Returns: nothing.
-- `ended_ms IS NULL`: a terminal status never changes (S9).
UPDATE instances
SET execution = ended.value ->> 3,
    status = ended.value ->> 4,
    last_commit = ended.value ->> 5,
    digest = substr(:bodies, ended.value ->> 6, ended.value ->> 7),
    reason = CAST(substr(:bodies, ended.value ->> 8, ended.value ->> 9) AS TEXT),
    output = substr(:bodies, ended.value ->> 10, ended.value ->> 11),
    updated_ms = :now_ms,
    ended_ms = :now_ms
FROM (SELECT value FROM json_each(:rows) LIMIT -1) AS ended
WHERE instances.part = ended.value ->> 0
  AND instances.instance_id = ended.value ->> 1
  AND instances.incarnation = ended.value ->> 2
  AND instances.ended_ms IS NULL;
