-- Remove the events of an execution behind its start, up to one.
-- Params: part, instance_id, incarnation, execution; upto. Returns: nothing.
DELETE FROM history
WHERE history.part = :part
  AND history.instance_id = :instance_id
  AND history.incarnation = :incarnation
  AND history.execution = :execution
  AND history.seq >= 2
  AND history.seq <= :upto;
