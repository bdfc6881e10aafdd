-- Return how a transaction has ended: committed, aborted or in progress.
-- Params: xid, as text. Returns: one value, NULL if it is too long ago. It fails if there was no
-- such transaction yet.
SELECT pg_xact_status(:xid::text::xid8);
