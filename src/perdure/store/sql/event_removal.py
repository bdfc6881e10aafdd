"""Remove events of deciders that are not kept any more, and put down what stands for them.

One transaction for an instance, under its lock. What it was told is looked at again: that nothing
of the stretch has gone meanwhile, that a snapshot lies behind it, that it is old, and that every
reader of the feed has passed it. A worker that comes second finds fewer rows than it knows of, and
removes nothing. The stamp stays as it is, so a turn that runs goes on.
"""

from __future__ import annotations

from perdure.model.histories.removals import EventRemoval, SnapshotPlace
from perdure.model.instances import part_of
from perdure.store.base import ExecutionKey
from perdure.store.contents import SlicePlace
from perdure.store.sql.connection import Connection
from perdure.store.sql.locking import lock_feed, lock_instances


def list_snapshots(
    connection: Connection, *, after: SlicePlace, above: int, limit: int
) -> list[SnapshotPlace]:
    """Return snapshots of live instances in order of their places, from behind one on."""
    rows = connection.run(
        "list_snapshots",
        after_part=after.part,
        after_id=after.instance_id,
        above=above,
        limit=limit,
    )
    return [SnapshotPlace(*row) for row in rows]


def first_unread(connection: Connection, execution: ExecutionKey) -> int | None:
    """Return the first event of an execution that some reader of the feed has not passed."""
    [(seq,)] = connection.run("first_unread", **execution._asdict())
    unread: int | None = seq
    return unread


def remove_events(connection: Connection, removal: EventRemoval, *, before_ms: int) -> bool:
    """Remove the events; return whether they could be."""
    execution = ExecutionKey(*removal[:3])
    place = {"part": part_of(removal.instance_id), **execution._asdict()}
    lock_instances(connection, [removal.instance_id])
    lock_feed(connection)
    [(rows, at_ms, snapshot_seq)] = connection.run("check_removal", **place, upto=removal.upto)
    if rows != removal.rows or at_ms is None or snapshot_seq is None:
        return False
    unread = first_unread(connection, execution)
    is_read = unread is None or unread > removal.upto
    if at_ms >= before_ms or snapshot_seq < removal.upto or not is_read:
        return False
    connection.run("delete_removed_events", **place, upto=removal.upto)
    connection.run("delete_removed_feed", **execution._asdict(), upto=removal.upto)
    kind, body = removal.standing
    connection.run("insert_removed", **place, kind=kind, at_ms=removal.at_ms, body=body)
    return True
