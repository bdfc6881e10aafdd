-- Let sessions end soon whose end a wrong clock wrote; a living owner renews them.
-- Params: far_ms (no lease ends so late); until_ms. Returns: nothing.
UPDATE sessions
SET until_ms = :until_ms
WHERE until_ms > :far_ms;
