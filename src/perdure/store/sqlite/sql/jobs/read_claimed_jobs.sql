-- Read jobs that were just leased.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: one row of a
-- JSON text [[index of the key, kind, name, variant, behaviour, attempt, lost, created_ms, session,
-- name and version of the owner, start_by_ms, rerun, length of failures, policy, input and
-- details], ...] and four blobs of those in the same order. A dead job that was put back may have
-- no owner.
SELECT
    json_group_array(json_array(
        wanted.key, definitions.kind, definitions.name, definitions.variant,
        definitions.behaviour, jobs.attempt, jobs.lost, jobs.created_ms,
        jobs.session, coalesce(owner.name, ''), coalesce(owner.variant, ''), jobs.start_by_ms,
        jobs.rerun,
        coalesce(length(jobs.failures), 0), length(jobs.policy), length(jobs.input),
        coalesce(length(jobs.details), 0)
    )),
    CAST(group_concat(jobs.failures, '') AS BLOB),
    CAST(group_concat(jobs.policy, '') AS BLOB),
    CAST(group_concat(jobs.input, '') AS BLOB),
    CAST(group_concat(jobs.details, '') AS BLOB)
FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
CROSS JOIN jobs
CROSS JOIN definitions
LEFT JOIN live
    ON live.part = jobs.part
   AND live.instance_id = jobs.instance_id
   AND live.incarnation = jobs.incarnation
LEFT JOIN definitions AS owner
    ON owner.definition_no = live.definition_no
WHERE jobs.part = wanted.value ->> 0
  AND jobs.instance_id = wanted.value ->> 1
  AND jobs.incarnation = wanted.value ->> 2
  AND jobs.execution = wanted.value ->> 3
  AND jobs.seq = wanted.value ->> 4
  AND definitions.definition_no = jobs.queue_no;
