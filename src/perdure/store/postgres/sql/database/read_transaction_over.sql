-- Tell whether a transaction has ended, one way or the other.
-- Params: xid, as text. Returns: one value. One that is long past is not known any more.
SELECT coalesce(pg_xact_status(:xid::text::xid8), 'committed') <> 'in progress';
