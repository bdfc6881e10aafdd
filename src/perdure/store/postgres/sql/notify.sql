-- Tell other processes that something was committed.
-- Params: channel; own, who tells it. Returns: nothing.
SELECT pg_notify(:channel::text, :own::text);
