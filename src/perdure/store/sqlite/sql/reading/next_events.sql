-- Find the next event of executions behind a number, where some may have been removed.
-- Params: keys, JSON [[part, instance_id, incarnation, execution, after_seq], ...]. Returns: index
-- of the key, seq; no row where there is none.
SELECT place, seq
FROM (
    SELECT
        wanted.key AS place,
        (
            SELECT min(history.seq)
            FROM history
            WHERE history.part = wanted.value ->> 0
              AND history.instance_id = wanted.value ->> 1
              AND history.incarnation = wanted.value ->> 2
              AND history.execution = wanted.value ->> 3
              AND history.seq > wanted.value ->> 4
        ) AS seq
    FROM (SELECT key, value FROM json_each(:keys) LIMIT -1) AS wanted
    WHERE true
)
WHERE seq IS NOT NULL
ORDER BY place;
