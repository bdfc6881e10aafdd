-- Load which turns were accepted at places of histories.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, seq], ...]. Returns: one JSON
-- text, [[index of the key, commit_id], ...]; none for what was written before commits were kept.
-- ANY: see load_live.
SELECT coalesce(json_agg(json_build_array(wanted.key, history.commit_id)), '[]'::json)
FROM (
    SELECT
        position - 1 AS key,
        (value ->> 0)::smallint AS part,
        (value ->> 1) COLLATE "C" AS instance_id,
        (value ->> 2)::bigint AS incarnation,
        (value ->> 3)::bigint AS execution,
        (value ->> 4)::bigint AS seq
    FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS given (value, position)
) AS wanted
JOIN perdure.history
    ON history.part = ANY (ARRAY[wanted.part])
   AND history.instance_id = wanted.instance_id
   AND history.incarnation = wanted.incarnation
   AND history.execution = wanted.execution
   AND history.seq = wanted.seq
WHERE history.commit_id IS NOT NULL;
