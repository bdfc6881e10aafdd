-- Read which turns have written the last events before places of histories.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, before_seq], ...]. Returns: one
-- JSON text, [[index of the key, commit_id or null], ...].
SELECT coalesce(json_agg(json_build_array(wanted.key, (
    SELECT history.commit_id
    FROM perdure.history
    WHERE history.part = wanted.part
      AND history.instance_id = wanted.instance_id
      AND history.incarnation = wanted.incarnation
      AND history.execution = wanted.execution
      AND history.seq < wanted.before_seq
      AND history.commit_id IS NOT NULL
    ORDER BY history.seq DESC
    LIMIT 1
))), '[]'::json)
FROM (
    SELECT
        position - 1 AS key,
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS incarnation,
        (value ->> 3)::bigint AS execution,
        (value ->> 4)::bigint AS before_seq
    FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS given (value, position)
) AS wanted;
