-- End the leases of a dead worker on turns, as if they had run out now.
-- Params: worker_id; now_ms; until_ms. Returns: nothing.
-- The home of a leased instance is who holds the lease: see lease_turns. One index range per
-- definition: nothing that it holds ends later than until_ms, and timers far ahead are many. As
-- JSON, so that SQLite looks the rows up by their keys.
UPDATE live
SET lease_until_ms = :now_ms,
    wake_at_ms = :now_ms
FROM json_each((
    SELECT json_group_array(json_array(leased.part, leased.instance_id))
    FROM definitions
    CROSS JOIN live AS leased INDEXED BY live_by_wake
    WHERE leased.definition_no = definitions.definition_no
      AND leased.wake_at_ms > :now_ms
      AND leased.wake_at_ms <= :until_ms
      AND leased.lease <> 0
      AND leased.home = :worker_id
)) AS held
WHERE live.part = held.value ->> 0
  AND live.instance_id = held.value ->> 1;
