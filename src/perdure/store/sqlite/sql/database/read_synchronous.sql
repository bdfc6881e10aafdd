-- Return how hard commits are flushed; 2 is FULL.
-- Params: none. Returns: one value.
PRAGMA synchronous;
