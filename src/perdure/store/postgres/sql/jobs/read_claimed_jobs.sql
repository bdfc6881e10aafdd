-- Read jobs that were just leased.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: one row of a
-- JSON text [[index of the key, kind, name, variant, behaviour, attempt, lost, created_ms, session,
-- name and version of the owner, start_by_ms, rerun, length of failures, policy, input and
-- details], ...] and those four in the same order, each joined to one. A dead job that was put back
-- may have no owner. The aggregates have no order of their own, so all see the same one.
-- ANY: see load_live.
SELECT
    coalesce(json_agg(json_build_array(
        wanted.position - 1, definitions.kind, definitions.name, definitions.variant,
        definitions.behaviour, jobs.attempt, jobs.lost, jobs.created_ms,
        jobs.session, coalesce(owner.name, ''), coalesce(owner.variant, ''), jobs.start_by_ms,
        jobs.rerun, coalesce(length(jobs.failures), 0), length(jobs.policy), length(jobs.input),
        coalesce(length(jobs.details), 0)
    )), '[]'::json),
    string_agg(jobs.failures, ''::bytea),
    string_agg(jobs.policy, ''::bytea),
    string_agg(jobs.input, ''::bytea),
    string_agg(jobs.details, ''::bytea)
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.jobs
    ON jobs.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND jobs.instance_id = wanted.value ->> 1
   AND jobs.incarnation = (wanted.value ->> 2)::bigint
   AND jobs.execution = (wanted.value ->> 3)::bigint
   AND jobs.seq = (wanted.value ->> 4)::bigint
JOIN perdure.definitions
    ON definitions.part = 0
   AND definitions.definition_no = ANY (ARRAY[jobs.queue_no])
LEFT JOIN perdure.live
    ON live.part = ANY (ARRAY[jobs.part])
   AND live.instance_id = jobs.instance_id
   AND live.incarnation = jobs.incarnation
LEFT JOIN perdure.definitions AS owner
    ON owner.part = 0
   AND owner.definition_no = ANY (ARRAY[live.definition_no]);
