-- Return how transactions are journalled.
-- Params: none. Returns: one value.
PRAGMA journal_mode;
