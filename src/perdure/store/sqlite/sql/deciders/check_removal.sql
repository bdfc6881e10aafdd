-- Look at what is to be removed of a history.
-- Params: part, instance_id, incarnation, execution; upto (the last event). Returns: one row, how
-- many of the events from the second on are there, when the last one was recorded, and the event
-- that the snapshot is of.
SELECT
    (
        SELECT count(*)
        FROM history
        WHERE history.part = :part
          AND history.instance_id = :instance_id
          AND history.incarnation = :incarnation
          AND history.execution = :execution
          AND history.seq >= 2
          AND history.seq <= :upto
    ),
    (
        SELECT history.at_ms
        FROM history
        WHERE history.part = :part
          AND history.instance_id = :instance_id
          AND history.incarnation = :incarnation
          AND history.execution = :execution
          AND history.seq = :upto
    ),
    (
        SELECT snapshots.seq
        FROM snapshots
        WHERE snapshots.part = :part
          AND snapshots.instance_id = :instance_id
          AND snapshots.incarnation = :incarnation
          AND snapshots.execution = :execution
    );
