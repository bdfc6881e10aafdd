-- Tell which instances have business keys.
-- Params: keys, JSON [[part, scope, key], ...]. Returns: one JSON text, [[index of the key,
-- instance_id], ...].
-- Not locked: a key that is free here and taken meanwhile fails insert_unique_keys, and one that is
-- freed meanwhile was taken a moment ago.
-- ANY: see load_live.
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1, unique_keys.instance_id
)), '[]'::json)
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.unique_keys
    ON unique_keys.part = ANY (ARRAY[(wanted.value ->> 0)::smallint])
   AND unique_keys.scope = wanted.value ->> 1
   AND unique_keys.key = wanted.value ->> 2;
