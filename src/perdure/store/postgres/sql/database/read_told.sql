-- Return a number that grows whenever a process tells the others of commits.
-- Params: none. Returns: one value.
SELECT last_value + is_called::integer FROM perdure.told;
