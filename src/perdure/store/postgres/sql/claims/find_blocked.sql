-- Find blocked instances that code has not been tried on, per definition.
-- Params: definitions, JSON [[definition_no, code], ...], code being DIGEST/LIFE; max_tries; limit.
-- Returns: as find_turns.
-- One that has a wake_at_ms is being tried, or was given back: then find_turns finds it. When many
-- lives of a digest were of no use, the next one will not be. Locked as by find_turns.
WITH found AS MATERIALIZED (
    SELECT wanted.position, blocked.*
    FROM jsonb_array_elements(:definitions::jsonb) WITH ORDINALITY AS wanted (value, position)
    CROSS JOIN LATERAL (
        SELECT
            live.part, live.instance_id, live.definition_no, live.incarnation, live.execution,
            live.next_seq, live.last_commit, live.attempts, live.last_no
        FROM perdure.live
        WHERE live.definition_no = (wanted.value ->> 0)::bigint
          AND live.blocked_by IS NOT NULL
          AND live.blocked_by <> '*'
          AND live.blocked_by NOT LIKE '-%'
          AND live.wake_at_ms IS NULL
          AND strpos(live.blocked_by, wanted.value ->> 1) = 0
          AND (length(live.blocked_by) - length(replace(live.blocked_by, ' ', '')) + 1
                   < :max_tries::bigint
               OR strpos(live.blocked_by, substr(
                   wanted.value ->> 1, 1, strpos(wanted.value ->> 1, '/')
               )) = 0)
        LIMIT :limit::bigint
        FOR UPDATE OF live SKIP LOCKED
    ) AS blocked
)
SELECT coalesce(json_agg((
    SELECT coalesce(json_agg(json_build_array(
        part, instance_id, definition_no, incarnation, execution, next_seq, last_commit, attempts,
        last_no
    )), '[]'::json)
    FROM found
    WHERE found.position = wanted.position
) ORDER BY wanted.position), '[]'::json)
FROM jsonb_array_elements(:definitions::jsonb) WITH ORDINALITY AS wanted (value, position);
