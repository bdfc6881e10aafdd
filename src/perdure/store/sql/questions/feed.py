"""Read the feed of deciders' events, and keep how far its readers have come.

What a reader sees is never followed by something with a lower position. On SQLite the one
connection that writes gives the positions inside its transaction; on PostgreSQL they are given one
after another to what was committed: see `number_feed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.model.feeds import Checkpoint, FeedEvent, ReaderStatus
from perdure.model.histories.events import StoredEvent
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import cut, pack, text_of, unpack

MAX_LOOK = 10_000
"""Positions that one call looks at: what a filter leaves out costs time too."""
MAX_FEED_BYTES = 16 * 1024 * 1024
"""Of the events that one call returns; a single event may be larger."""


def read_feed(
    connection: Connection,
    *,
    after: int,
    limit: int,
    deciders: Sequence[str],
    tags: Sequence[str],
) -> tuple[list[FeedEvent], int]:
    """Return events in the order of their commits, and up to where was looked."""
    if limit < 1:
        return [], after
    after = max(after, 0)
    limit = min(limit, MAX_LOOK)
    upto = after + MAX_LOOK
    [(text, blob, end)] = connection.run(
        "read_feed",
        after=after,
        upto=upto,
        max_events=limit + 1,
        max_bytes=MAX_FEED_BYTES,
        deciders=pack(deciders) if deciders else None,
        tags=pack(tags) if tags else None,
    )
    rows = unpack(text)
    bodies = cut(blob, (row[8] for row in rows))
    found = sorted(_feed_event(row, body) for row, body in zip(rows, bodies, strict=True))
    if len(found) > limit or len(blob or b"") > MAX_FEED_BYTES:
        # There may be more of them behind the last one that is returned.
        found = found[:limit]
        upto = found[-1].pos
    else:
        upto = max(after, min(upto, end or 0))
    return [event for event in found if event.stored.kind], upto


def _feed_event(row: Sequence[Any], body: bytes) -> FeedEvent:
    pos, decider, instance_id, incarnation, tag, seq, kind, at_ms, _, *origin = row
    stored = StoredEvent(seq, kind or "", at_ms or 0, body)
    return FeedEvent(pos, decider, instance_id, incarnation, tag, stored, *origin)


def feed_end(connection: Connection) -> int:
    """Return the position of the newest event; 0 if there is none."""
    [(end,)] = connection.run("feed_end")
    position: int = end
    return position


# ------------------------------------------------------------------------ checkpoints


def claim_feed(
    connection: Connection, name: str, *, lease: int, lease_ms: int, worker_id: str, now_ms: int
) -> Checkpoint | None:
    """Take or keep the right to read under a name."""
    rows = connection.run(
        "claim_feed",
        name=name,
        lease=lease,
        until_ms=now_ms + lease_ms,
        worker_id=worker_id,
        now_ms=now_ms,
    )
    return _checkpoint(rows[0]) if rows else None


def advance_feed(
    connection: Connection, name: str, *, lease: int, from_pos: int, to_pos: int, now_ms: int
) -> bool:
    """Move a checkpoint forward, if it stands there under that lease."""
    moved = connection.run(
        "advance_feed", name=name, lease=lease, from_pos=from_pos, to_pos=to_pos, now_ms=now_ms
    )
    return bool(moved)


def set_reader(
    connection: Connection,
    name: str,
    *,
    status: ReaderStatus | None,
    reason: str | None,
    pos: int | None,
    lease: int | None,
    now_ms: int,
) -> bool:
    """Change how a reader stands, and end its lease."""
    changed = connection.run(
        "set_reader",
        name=name,
        status=None if status is None else status.value,
        # As bytes: it may hold NUL, which not every database has in a text.
        reason=None if reason is None else reason.encode(),
        pos=pos,
        lease=lease,
        now_ms=now_ms,
    )
    return bool(changed)


def forget_reader(connection: Connection, name: str, *, now_ms: int) -> bool:
    """Forget a reader, unless a worker has the right to read."""
    return bool(connection.run("forget_reader", name=name, now_ms=now_ms))


def read_checkpoints(connection: Connection) -> list[Checkpoint]:
    """Return how far every reader has come, by name."""
    return [_checkpoint(row) for row in connection.run("read_checkpoints")]


def _checkpoint(row: Sequence[Any]) -> Checkpoint:
    name, pos, status, reason, *rest = row
    return Checkpoint(name, pos, ReaderStatus(status), text_of(reason), *rest)
