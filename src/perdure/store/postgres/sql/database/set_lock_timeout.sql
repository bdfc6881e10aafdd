-- Say for how long this transaction waits for a lock.
-- Params: timeout, as text. Returns: the same.
SELECT set_config('lock_timeout', :timeout::text, true);
