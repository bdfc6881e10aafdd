-- Find a worker if it is still that very process, and keep it so until the end of the transaction.
-- Params: worker_id; place; pid; born. Returns: worker_id, or no row.
-- A row that is locked gives a sign of life right now, or another worker is freeing what it held.
SELECT worker_id
FROM perdure.workers
WHERE part = 0
  AND worker_id = :worker_id::text
  AND place = :place::text
  AND place <> ''
  AND pid = :pid::bigint
  AND born = :born::bigint
FOR UPDATE SKIP LOCKED;
