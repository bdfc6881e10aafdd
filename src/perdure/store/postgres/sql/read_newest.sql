-- Return a number that grows with every transaction that writes.
-- Params: none. Returns: one value.
SELECT pg_snapshot_xmax(pg_current_snapshot())::text;
