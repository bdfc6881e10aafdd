-- Return the numbers of definitions.
-- Params: keys, JSON [[kind, name, variant, behaviour], ...]. Returns: one JSON text, [[index of
-- the key, definition_no], ...].
-- ANY: see load_live.
SELECT coalesce(json_agg(json_build_array(
    wanted.position - 1, definitions.definition_no
)), '[]'::json)
FROM jsonb_array_elements(:keys::jsonb) WITH ORDINALITY AS wanted (value, position)
JOIN perdure.definitions
    ON definitions.part = 0
   AND definitions.kind = ANY (ARRAY[wanted.value ->> 0])
   AND definitions.name = wanted.value ->> 1
   AND definitions.variant = wanted.value ->> 2
   AND definitions.behaviour = (wanted.value ->> 3)::bigint;
