-- Remove workers that have given no sign of life for long: they were killed.
-- Params: before_ms. Returns: nothing.
-- Whose row is locked gives a sign of life right now, or is being removed by another.
WITH silent AS MATERIALIZED (
    SELECT workers.part, workers.worker_id
    FROM perdure.workers
    WHERE workers.seen_ms < :before_ms::bigint
    FOR UPDATE SKIP LOCKED
)
DELETE FROM perdure.workers
USING silent
WHERE workers.part = silent.part
  AND workers.worker_id = silent.worker_id;
