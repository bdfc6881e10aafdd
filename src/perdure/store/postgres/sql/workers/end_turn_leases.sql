-- End the leases of a dead worker on turns, as if they had run out now.
-- Params: worker_id; now_ms; until_ms. Returns: nothing.
-- The home of a leased instance is who holds the lease: see lease_turns. One index range per
-- definition: nothing that it holds ends later than until_ms, and timers far ahead are many. What
-- another transaction has locked is left alone, so that this never waits; its lease runs out.
-- ANY: see load_live.
WITH held AS MATERIALIZED (
    SELECT leased.*
    FROM perdure.definitions
    CROSS JOIN LATERAL (
        SELECT live.part, live.instance_id
        FROM perdure.live
        WHERE live.definition_no = definitions.definition_no
          AND live.wake_at_ms > :now_ms::bigint
          AND live.wake_at_ms <= :until_ms::bigint
          AND live.lease <> 0
          AND live.home = :worker_id::text
        FOR UPDATE OF live SKIP LOCKED
    ) AS leased
)
UPDATE perdure.live
SET lease_until_ms = :now_ms::bigint,
    wake_at_ms = :now_ms::bigint
FROM held
WHERE live.part = ANY (ARRAY[held.part])
  AND live.instance_id = held.instance_id;
