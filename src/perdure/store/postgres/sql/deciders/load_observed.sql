-- Tell how many inputs of instances were observed.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key, newest
-- number or 0], ...].
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1,
    coalesce((
        SELECT observations.no
        FROM perdure.observations
        WHERE observations.part = (wanted.value ->> 0)::smallint
          AND observations.instance_id = wanted.value ->> 1
        ORDER BY observations.no DESC
        LIMIT 1
    ), 0)
)), '[]'::json)
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position);
