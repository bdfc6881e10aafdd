-- Read every definition.
-- Params: none. Returns: one JSON text, [[definition_no, kind, name, variant, behaviour], ...].
SELECT json_group_array(json_array(definition_no, kind, name, variant, behaviour))
FROM definitions;
