-- Read how far every reader of the feed has come.
-- Params: none. Returns: name, pos, status, reason, losses, lease_until_ms, updated_ms, by name.
SELECT name, pos, status, reason, losses, lease_until_ms, updated_ms
FROM perdure.checkpoints
ORDER BY name;
