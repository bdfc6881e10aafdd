-- Find a worker if it is still that very process.
-- Params: worker_id; place; pid; born. Returns: worker_id, or no row.
SELECT worker_id
FROM workers
WHERE worker_id = :worker_id
  AND place = :place
  AND place <> ''
  AND pid = :pid
  AND born = :born;
