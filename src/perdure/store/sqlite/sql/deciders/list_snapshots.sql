-- List snapshots of live instances in order of their places, from behind one on.
-- Params: after_part, after_id (behind this id); above (a version); limit. Returns: instance_id,
-- incarnation, execution, definition_no, seq, version.
SELECT
    snapshots.instance_id,
    snapshots.incarnation,
    snapshots.execution,
    live.definition_no,
    snapshots.seq,
    snapshots.version
FROM snapshots
CROSS JOIN live
WHERE (snapshots.part, snapshots.instance_id) > (:after_part, :after_id)
  AND live.part = snapshots.part
  AND live.instance_id = snapshots.instance_id
  AND snapshots.version > :above
  AND live.definition_no IS NOT NULL
  AND live.incarnation = snapshots.incarnation
  AND live.execution = snapshots.execution
ORDER BY snapshots.part, snapshots.instance_id
LIMIT :limit;
