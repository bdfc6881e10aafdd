-- Find instances that are ready, or whose lease is to end, by a time that a wrong clock wrote.
-- Params: now_ms; far_ms (no lease ends so late); limit. Returns: one JSON text, [[part,
-- instance_id, wake_at_ms, lease], ...].
-- A message that waits and is no timer makes its instance ready at once; one with a time to come
-- has arrived by a wrong clock. A start that is delayed has a later time than its message.
-- Reads the whole table, so it is no part of a transaction that writes.
SELECT json_group_array(json_array(part, instance_id, wake_at_ms, lease))
FROM (
    SELECT live.part, live.instance_id, live.wake_at_ms, live.lease
    FROM live
    WHERE live.wake_at_ms > :now_ms
      AND live.blocked_by IS NULL
      AND (
          live.lease <> 0 AND live.lease_until_ms > :far_ms
          OR live.lease = 0 AND EXISTS (
              SELECT 1
              FROM inbox
              WHERE inbox.part = live.part
                AND inbox.instance_id = live.instance_id
                AND inbox.rank < 2
                AND inbox.effective_at_ms > :now_ms
                AND (live.next_seq > 1 OR live.wake_at_ms <= inbox.effective_at_ms)
          )
      )
    LIMIT :limit
);
