"""Remove what is not needed any more.

A deletion checks and removes inside one transaction, under the locks of its instances, so nothing
can be born under it. A commit that was under way for a deleted instance finds no live row and is
refused: see `commit`.

Finding what is too old takes a look at whole tables, and so it is done by a reader; the transaction
that removes it looks again at every row it was told of, and at no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from perdure.model.admin import DeletedCounts, Expiry
from perdure.model.instances import part_of
from perdure.store.sql.commits.decision_rows import DECIDER_ROWS
from perdure.store.sql.commits.streams import lock_heads
from perdure.store.sql.connection import Connection
from perdure.store.sql.locking import lock_feed, lock_instances
from perdure.store.sql.packing import pack, unpack
from perdure.store.sql.questions import overview
from perdure.store.sql.questions.reading import read_instances

_OTHER_ROWS = (
    "delete_live",
    "delete_receipts",
    "delete_kv",
    "delete_reports",
    "delete_stream_heads",
    "delete_streams",
    "delete_dead_jobs_of",
    *DECIDER_ROWS,
)
"""Statements that remove what a deletion does not count."""

# ------------------------------------------------------------------------- instances


def delete(
    connection: Connection, instances: Sequence[tuple[str, int]], *, force: bool
) -> DeletedCounts | None:
    """Remove every row of these incarnations, or none of them."""
    chosen = dict.fromkeys(instances)
    if not chosen:
        return DeletedCounts()
    # A child is started by a turn of its parent, so under the parents' locks none can appear. An id
    # that is started anew meanwhile is another incarnation, and the deletion is refused.
    lock_instances(connection, [instance_id for instance_id, _ in chosen])
    keys = pack([(part_of(instance_id), instance_id, no) for instance_id, no in chosen])
    [(deletable,)] = connection.run("count_deletable", keys=keys, force=force)
    if deletable < len(chosen) or connection.run("find_stray_children", keys=keys):
        return None
    [(executions,)] = connection.run("count_executions", keys=keys)
    counts = DeletedCounts(
        instances=connection.change("delete_instances", keys=keys),
        executions=executions,
        events=connection.change("delete_history", keys=keys),
        messages=connection.change("delete_inbox", keys=keys),
        jobs=connection.change("delete_jobs_of", keys=keys),
    )
    lock_feed(connection)
    for name in _OTHER_ROWS:
        connection.run(name, keys=keys)
    return counts


def prune(
    connection: Connection, instance_id: str, *, keep_last: int, ended_before_ms: int | None
) -> DeletedCounts:
    """Remove the histories of earlier executions."""
    lock_instances(connection, [instance_id])
    [row] = read_instances(connection, [instance_id])
    if row is None:
        return DeletedCounts()
    last = row.execution - max(keep_last, 1)
    keys = [
        (part_of(instance_id), instance_id, row.incarnation, one.execution)
        for one in overview.read_executions(connection, instance_id)
        if one.execution <= last and (ended_before_ms is None or one.last_at_ms < ended_before_ms)
    ]
    if not keys:
        return DeletedCounts()
    lock_feed(connection)
    events = connection.change("delete_executions", keys=pack(keys))
    connection.run("delete_feed_of_executions", keys=pack(keys))
    return DeletedCounts(executions=len(keys), events=events)


# ---------------------------------------------------------------------- what is old


class Expired(NamedTuple):
    """Keys of rows that were found to be too old."""

    receipts: list[Any]
    unborn: list[Any]
    dead_jobs: list[Any]
    streams: list[Any]
    sessions: list[Any]


def find_expired(connection: Connection, expiry: Expiry, *, limit: int, now_ms: int) -> Expired:
    """Find what is too old, at most so many rows of each sort."""

    def find(name: str, before_ms: int | None) -> list[Any]:
        if before_ms is None:
            return []
        [(text,)] = connection.run(name, before_ms=before_ms, limit=limit)
        return unpack(text)

    return Expired(
        receipts=find("find_old_receipts", expiry.receipts_before_ms),
        unborn=find("find_old_unborn", expiry.unborn_before_ms),
        dead_jobs=find("find_old_dead_jobs", expiry.dead_jobs_before_ms),
        streams=find("find_old_stream_rows", expiry.streams_before_ms),
        sessions=find("find_idle_sessions", now_ms if expiry.sessions else None),
    )


def remove_expired(connection: Connection, expired: Expired, expiry: Expiry, *, now_ms: int) -> int:
    """Remove what was found, as far as it is too old still; return how many.

    Receipts, ids and rows of streams are under the locks of their instances: else a start or a
    reset could come between the look at what is live and the removal. A dead job or a session is
    one row, which is looked at again after the transaction that has it locked is done.
    """
    of_instances = (*expired.receipts, *expired.unborn, *expired.streams)
    lock_instances(connection, [key[1] for key in of_instances])
    if expired.streams:
        lock_heads(connection, [key[1] for key in expired.streams])

    def remove(name: str, keys: list[Any], before_ms: int | None) -> int:
        if not keys or before_ms is None:
            return 0
        return connection.change(name, keys=pack(keys), before_ms=before_ms)

    return (
        remove("delete_old_receipts", expired.receipts, expiry.receipts_before_ms)
        + remove("delete_old_dead_jobs", expired.dead_jobs, expiry.dead_jobs_before_ms)
        + remove("delete_old_stream_rows", expired.streams, expiry.streams_before_ms)
        + remove("delete_idle_sessions", expired.sessions, now_ms)
        + _remove_unborn(connection, expired.unborn, expiry.unborn_before_ms)
    )


def _remove_unborn(connection: Connection, keys: list[Any], before_ms: int | None) -> int:
    if not keys or before_ms is None:
        return 0
    gone = connection.run("delete_old_unborn", keys=pack(keys), before_ms=before_ms)
    packed = pack(gone)
    connection.run("delete_inbox", keys=packed)
    connection.run("delete_receipts", keys=packed)
    connection.run("delete_observations", keys=packed)
    return len(gone)
