-- Tell the position of the newest event.
-- Params: none. Returns: it, or 0.
SELECT coalesce(max(pos), 0)
FROM feed;
