-- Tell how many inputs of instances were observed.
-- Params: keys, JSON [[part, instance_id], ...]. Returns: one JSON text, [[index of the key, newest
-- number or 0], ...].
SELECT json_group_array(json_array(
    wanted.key,
    (
        SELECT coalesce(max(observations.no), 0)
        FROM observations
        WHERE observations.part = wanted.value ->> 0
          AND observations.instance_id = wanted.value ->> 1
    )
))
FROM json_each(:keys) AS wanted;
