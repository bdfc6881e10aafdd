-- Offer the blocked instances of a definition to code that differs from the one that failed.
-- Params: definition_no; code; now_ms. Returns: for each whether it was offered: all are.
-- blocked_by stays until a commit clears it. What is offered already, or under a lease, has a
-- wake_at_ms and is left alone.
UPDATE live INDEXED BY live_by_block
SET wake_at_ms = :now_ms
WHERE definition_no = :definition_no
  AND blocked_by IS NOT NULL
  AND blocked_by NOT IN ('*', :code)
  AND wake_at_ms IS NULL
RETURNING 1;
