-- Tell other processes that something was committed: those that listen, and those that cannot.
-- Params: channel; own, who tells it; schema. Returns: one value, the number that `read_told` gives
-- after this.
-- A sequence, because no commit waits for another one's end to raise it. It must not be raised
-- before what is told of can be seen: so never inside the transaction that is meant.
-- A notification is a commit, and who hears it need not wait for the disk: if the server crashes,
-- no process listens any more.
SELECT nextval(format('%I.told', :schema::text)::regclass) + 1
FROM
    pg_notify(:channel::text, :own::text),
    set_config('synchronous_commit', 'off', true);
