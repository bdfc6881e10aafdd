-- Remove the events of an execution behind its start, up to one.
-- Params: part, instance_id, incarnation, execution; upto. Returns: nothing.
DELETE FROM perdure.history
WHERE history.part = :part::smallint
  AND history.instance_id = :instance_id::text
  AND history.incarnation = :incarnation::bigint
  AND history.execution = :execution::bigint
  AND history.seq >= 2
  AND history.seq <= :upto::bigint;
