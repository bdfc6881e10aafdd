-- Read the numbers of all observed inputs, for the checker.
-- Params: none. Returns: instance_id, no.
SELECT instance_id, no
FROM perdure.observations
ORDER BY instance_id, no;
