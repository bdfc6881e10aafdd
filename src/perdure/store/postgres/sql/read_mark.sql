-- Return what stays the same as long as the server does not crash. Whoever finds nothing makes it.
-- Params: mark, a random number. Returns: the mark and whose server it is, as one text; no row if
-- somebody else is making it at this moment.
WITH made AS (
    INSERT INTO perdure.marks (part, mark)
    VALUES (0, :mark::bigint)
    ON CONFLICT DO NOTHING
    RETURNING mark
)
SELECT found.mark::text || ' ' || (SELECT system_identifier::text FROM pg_control_system())
FROM (
    SELECT mark FROM made
    UNION ALL
    SELECT mark FROM perdure.marks WHERE part = 0
) AS found;
