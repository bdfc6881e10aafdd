-- Remove workers that have given no sign of life for long: they were killed.
-- Params: before_ms. Returns: nothing.
DELETE FROM workers
WHERE seen_ms < :before_ms;
