-- Return what stays the same as long as the database cannot have gone back. It is made
-- where there is none.
-- Params: mark, a random number. Returns: the mark and where it stands, as one text; no row if
-- another process is making it at this moment.
-- The table does not outlive a crash, and no standby has it. A dump carries it along; restored, it
-- is another table, or in another database.
WITH made AS (
    INSERT INTO perdure.marks (part, mark)
    VALUES (0, :mark::bigint)
    ON CONFLICT DO NOTHING
    RETURNING mark
)
SELECT concat_ws(
    ' ',
    found.mark,
    (SELECT system_identifier FROM pg_control_system()),
    (SELECT oid FROM pg_database WHERE datname = current_database()),
    'perdure.marks'::regclass::oid
)
FROM (
    SELECT mark FROM made
    UNION ALL
    SELECT mark FROM perdure.marks WHERE part = 0
) AS found;
