-- Read every definition.
-- Params: none. Returns: one JSON text, [[definition_no, kind, name, variant, behaviour], ...].
SELECT coalesce(
    json_agg(json_build_array(definition_no, kind, name, variant, behaviour)), '[]'::json
)
FROM perdure.definitions;
