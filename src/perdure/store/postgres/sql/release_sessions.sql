-- Give up all sessions of an owner.
-- Params: owner. Returns: nothing.
-- Locked in the order of their keys first, as take_sessions does it. One that another owner takes
-- meanwhile is that owner's and stays.
WITH held AS MATERIALIZED (
    SELECT sessions.part, sessions.session
    FROM perdure.sessions
    WHERE sessions.owner = :owner::text
    ORDER BY sessions.part, sessions.session
    FOR UPDATE
)
DELETE FROM perdure.sessions
USING held
WHERE sessions.part = held.part
  AND sessions.session = held.session
  AND sessions.owner = :owner::text;
