-- Leave a mark that a worker's lock is held.
-- Params: key, the lock. Returns: one row if there is a mark, or none: another worker takes the
-- same part at this moment.
-- The mark with part 0 is the server's own: see read_mark.
WITH known AS MATERIALIZED (
    SELECT mark FROM perdure.marks WHERE part > 0::smallint AND mark = :key::bigint
),
made AS (
    INSERT INTO perdure.marks (part, mark)
    SELECT slot.part::smallint, :key::bigint
    FROM generate_series(1, 32767) AS slot (part)
    WHERE NOT EXISTS (SELECT FROM known)
      AND NOT EXISTS (SELECT FROM perdure.marks WHERE marks.part = slot.part::smallint)
    LIMIT 1
    ON CONFLICT DO NOTHING
    RETURNING mark
)
SELECT mark FROM known
UNION ALL
SELECT mark FROM made;
