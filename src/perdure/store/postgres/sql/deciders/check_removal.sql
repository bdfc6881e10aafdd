-- Look at what is to be removed of a history.
-- Params: part, instance_id, incarnation, execution; upto (the last event). Returns: one row, how
-- many of the events from the second on are there, when the last one was recorded, and the event
-- that the snapshot is of.
SELECT
    (
        SELECT count(*)
        FROM perdure.history
        WHERE history.part = :part::smallint
          AND history.instance_id = :instance_id::text
          AND history.incarnation = :incarnation::bigint
          AND history.execution = :execution::bigint
          AND history.seq >= 2
          AND history.seq <= :upto::bigint
    ),
    (
        SELECT history.at_ms
        FROM perdure.history
        WHERE history.part = :part::smallint
          AND history.instance_id = :instance_id::text
          AND history.incarnation = :incarnation::bigint
          AND history.execution = :execution::bigint
          AND history.seq = :upto::bigint
    ),
    (
        SELECT snapshots.seq
        FROM perdure.snapshots
        WHERE snapshots.part = :part::smallint
          AND snapshots.instance_id = :instance_id::text
          AND snapshots.incarnation = :incarnation::bigint
          AND snapshots.execution = :execution::bigint
    );
