-- Return a number that grows whenever somebody tells the others of commits.
-- Params: none. Returns: one value.
SELECT last_value + is_called::integer FROM perdure.told;
