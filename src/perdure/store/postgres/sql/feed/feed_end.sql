-- Tell the position of the newest event that can be read.
-- Params: none. Returns: it, or 0.
SELECT coalesce(max(pos), 0)
FROM perdure.feed;
