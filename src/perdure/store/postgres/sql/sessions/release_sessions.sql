-- Give up all sessions of an owner.
-- Params: owner. Returns: nothing.
-- What another transaction has locked is being taken over, or runs out.
WITH held AS MATERIALIZED (
    SELECT sessions.part, sessions.session
    FROM perdure.sessions
    WHERE sessions.owner = :owner::text
    ORDER BY sessions.part, sessions.session
    FOR UPDATE SKIP LOCKED
)
DELETE FROM perdure.sessions
USING held
WHERE sessions.part = held.part
  AND sessions.session = held.session
  AND sessions.owner = :owner::text;
