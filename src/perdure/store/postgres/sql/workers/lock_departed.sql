-- Find a worker if it is still that very process and none of its connections is left, and keep it
-- so until the end of the transaction.
-- Params: worker_id; host; pid; started_ms; life, see read_life; key, the lock of its connections.
-- Returns: worker_id, or no row.
-- It cannot connect anew before the end: it waits for its lock then. A row that is locked gives a
-- sign of life right now, or another worker is freeing what it held.
WITH found AS MATERIALIZED (
    SELECT worker_id
    FROM perdure.workers
    WHERE part = 0::smallint
      AND worker_id = :worker_id::text
      AND host = :host::text
      AND pid = :pid::bigint
      AND started_ms = :started_ms::bigint
      AND EXISTS (
          SELECT FROM perdure.marks WHERE marks.part > 0::smallint AND marks.mark = :key::bigint
      )
      AND :life::bigint = floor(
          extract(EPOCH FROM pg_postmaster_start_time())::numeric * 1000000::numeric
      )::bigint
    FOR UPDATE SKIP LOCKED
)
SELECT worker_id
FROM found
WHERE pg_try_advisory_xact_lock(:key::bigint);
