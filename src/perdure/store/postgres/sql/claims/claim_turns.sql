-- Find instances that are ready or whose lease ran out, lease them and read their messages, as one
-- transaction, if there is nothing to choose: see migrations/0004_claims.sql.
-- Params: definitions, worker_id, now_ms, home_ms, losses_below and limit as for find_turns;
-- may_differ_ms (how far now_ms may be from the database's time, or NULL); suspect_after; lease and
-- until_ms as for lease_turns; max_messages and max_bytes as for read_visible.
-- Returns: one value, a JSON text [whether it was done, what find_turns returns, what lease_turns
-- returns, of each an object, and the JSON text of read_visible], a zero byte, and the bodies of
-- the messages.
SELECT perdure.claim_1(
    :definitions::jsonb,
    :worker_id::text,
    :now_ms::bigint,
    :may_differ_ms::bigint,
    :home_ms::bigint,
    :losses_below::bigint,
    :limit::bigint,
    :suspect_after::bigint,
    :lease::bigint,
    :until_ms::bigint,
    :max_messages::bigint,
    :max_bytes::bigint
);
