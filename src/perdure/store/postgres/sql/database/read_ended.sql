-- Return which of these transactions have ended, one way or the other.
-- Params: xids, JSON [xid, ...], each as text. Returns: xids.
-- One that is long past is not known any more.
SELECT given.xid
FROM jsonb_array_elements_text(:xids::jsonb) AS given (xid)
WHERE coalesce(pg_xact_status(given.xid::xid8), 'committed') <> 'in progress';
