-- Give positions to events that have none yet.
-- Params: limit. Returns: how many got one; 0 also if another does it right now.
-- A function, because what is moved has to be looked for after the counter was locked: only a
-- statement that begins then sees everything that was there before. See the migration.
SELECT perdure.number_feed(:limit::bigint);
