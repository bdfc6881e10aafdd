-- Read what the tokens of promises are signed with.
-- Params: none. Returns: one value, 32 bytes.
SELECT secret
FROM perdure.perdure_settings;
