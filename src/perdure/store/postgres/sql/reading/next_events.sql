-- Find the next event of executions behind a number, where some may have been removed.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, after_seq], ...]. Returns: index
-- of the key, seq; no row where there is none.
SELECT wanted.position - 1, following.seq
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
CROSS JOIN LATERAL (
    SELECT history.seq
    FROM perdure.history
    WHERE history.part = (wanted.value ->> 0)::smallint
      AND history.instance_id = wanted.value ->> 1
      AND history.incarnation = (wanted.value ->> 2)::bigint
      AND history.execution = (wanted.value ->> 3)::bigint
      AND history.seq > (wanted.value ->> 4)::bigint
    ORDER BY history.seq
    LIMIT 1
) AS following
ORDER BY wanted.position;
