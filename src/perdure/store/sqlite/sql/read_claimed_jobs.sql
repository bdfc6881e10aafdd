-- Read jobs that were just leased.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: one row of a
-- JSON text [[index of the key, kind, name, variant, behaviour, attempt, lost, created_ms, length
-- of failures, policy and input], ...] and three blobs of those in the same order.
SELECT
    json_group_array(json_array(
        wanted.key, definitions.kind, definitions.name, definitions.variant,
        definitions.behaviour, jobs.attempt, jobs.lost, jobs.created_ms,
        coalesce(length(jobs.failures), 0), length(jobs.policy), length(jobs.input)
    )),
    CAST(group_concat(jobs.failures, '') AS BLOB),
    CAST(group_concat(jobs.policy, '') AS BLOB),
    CAST(group_concat(jobs.input, '') AS BLOB)
FROM json_each(:keys) AS wanted
CROSS JOIN jobs
CROSS JOIN definitions
WHERE jobs.part = wanted.value ->> 0
  AND jobs.instance_id = wanted.value ->> 1
  AND jobs.incarnation = wanted.value ->> 2
  AND jobs.execution = wanted.value ->> 3
  AND jobs.seq = wanted.value ->> 4
  AND definitions.definition_no = jobs.queue_no;
