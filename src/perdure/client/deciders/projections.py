"""Methods of `Client`: what an operator sees of projections and subscriptions, and does to them.

Readers hear of it at once in this process, and soon in others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from perdure.authoring.registry import reader_key
from perdure.clock import to_datetime
from perdure.codec import check_text
from perdure.errors import NotRegisteredError, UsageError
from perdure.model.feeds import (
    REBUILD,
    Checkpoint,
    ReaderStatus,
    StuckEvent,
    read_stuck,
)
from perdure.store.base import Store
from perdure.turns.unserved import alive_since_ms

if TYPE_CHECKING:
    from perdure.client.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckAt:
    """What a projection could not handle."""

    method: str = "handle"
    """`handle`, or `setup` or `reset` if the projection could not set itself up or begin anew."""
    position: int
    """Of the event; 0 if it has not come to any."""
    instance_id: str
    """The instance whose event it is, with the decider's name before it."""
    event: str
    """Which event, by its tag."""
    error: str
    """The exception's class."""
    message: str
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectionInfo:
    """How a projection or subscription stands."""

    name: str
    status: ReaderStatus
    """running, paused, or stuck: at an event that it cannot handle, or before any."""
    position: int
    """Up to where it has handled events."""
    behind: int
    """How many positions the newest event lies ahead. Positions have gaps, and not all events need
    be for it."""
    lag: timedelta
    """How long the oldest event that it has not handled has been waiting; zero if there is none."""
    has_worker: bool
    """Whether a worker reads for it now."""
    updated: datetime
    """When it last moved or was changed."""
    reason: str
    """Why it was paused."""
    stuck: StuckAt | None


async def projections(self: Client) -> list[ProjectionInfo]:
    """Return how all projections and subscriptions stand that a worker has ever run here, by
    name."""
    store = self._core.store
    end = await store.feed.feed_end()
    now_ms = store.clock()
    return [
        await _info_of(store, found, end, now_ms) for found in await store.feed.read_checkpoints()
    ]


async def projection(self: Client, name: str, /) -> ProjectionInfo:
    """Return how a projection or subscription stands.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
    """
    store = self._core.store
    found = await _checkpoint(store, name)
    return await _info_of(store, found, await store.feed.feed_end(), store.clock())


async def pause_projection(self: Client, name: str, /, *, reason: str = "") -> None:
    """Let a projection handle no more events until it is resumed.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
    """
    check_text("reason", reason)
    found = await _checkpoint(self._core.store, name)
    # One that is to begin anew still is when it is resumed.
    kept = REBUILD if _is_rebuild(found) else reason or None
    await self._core.store.feed.set_reader(name, status=ReaderStatus.PAUSED, reason=kept)


async def resume_projection(self: Client, name: str, /, *, skip: bool = False) -> None:
    """Let a projection go on that was paused or is stuck.

    Args:
        name: Which one.
        skip: Whether to leave out the event at which it is stuck, for good. Otherwise that one
            is tried again.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
        UsageError: An event is to be skipped, and it is not stuck at any.
    """
    found = await _checkpoint(self._core.store, name)
    stuck = _stuck(found)
    pos = None
    if skip:
        if stuck is None or stuck.pos == 0:
            raise UsageError(
                f"projection {name!r} is not stuck at an event ({_shown(found)}), so none can "
                "be skipped: resume it without skip"
            )
        pos = stuck.pos
    reason = REBUILD if _is_rebuild(found) else None
    await self._core.store.feed.set_reader(
        name, status=ReaderStatus.RUNNING, reason=reason, pos=pos
    )


async def rebuild_projection(self: Client, name: str, /) -> None:
    """Let a projection remove what it has written and handle all events once more.

    The worker that reads calls its `reset()` first; without one the projection gets stuck
    before any event. A subscription starts and sends nothing again that the store still knows.
    Events of instances that were deleted meanwhile are gone.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
    """
    await _checkpoint(self._core.store, name)
    await self._core.store.feed.set_reader(name, status=ReaderStatus.RUNNING, reason=REBUILD, pos=0)


async def forget_projection(self: Client, name: str, /) -> None:
    """Forget a projection or subscription that exists no more, and how far it had come.

    Tables of a `SqlProjection` and what else it has written stay. Handed to a worker again, it
    begins with the first event.

    Raises:
        NotRegisteredError: No worker has ever run one of that name.
        UsageError: A living worker has it; the error says which.
    """
    store = self._core.store
    await _checkpoint(store, name)
    key = reader_key(name)
    since_ms = alive_since_ms(store.clock)
    workers = await store.read_workers(seen_since_ms=since_ms)
    having = [worker.worker_id for worker in workers if key in worker.definitions]
    if having:
        raise UsageError(
            f"projection {name!r} cannot be forgotten, it would begin anew at once: worker "
            f"{', '.join(sorted(having))} has it. Stop that, or deploy it without the "
            "projection; if it was killed, try again in a minute"
        )
    if not await store.feed.forget_reader(name):
        # Fails if another has forgotten it meanwhile.
        await _checkpoint(store, name)
        raise UsageError(
            f"projection {name!r} is read by a worker that gives no sign of life; it can be "
            "forgotten when its lease has run out"
        )


# ------------------------------------------------------------------------ inside


async def _checkpoint(store: Store, name: str) -> Checkpoint:
    known = await store.feed.read_checkpoints()
    for found in known:
        if found.name == name:
            return found
    raise NotRegisteredError("projection", name, known=[one.name for one in known])


async def _info_of(store: Store, found: Checkpoint, end: int, now_ms: int) -> ProjectionInfo:
    waiting_ms = 0
    if found.pos < end:
        events, _ = await store.feed.read_feed(after=found.pos, limit=1)
        waiting_ms = max(0, now_ms - events[0].stored.at_ms) if events else 0
    stuck = _stuck(found)
    return ProjectionInfo(
        name=found.name,
        status=found.status,
        position=found.pos,
        behind=max(0, end - found.pos),
        lag=timedelta(milliseconds=waiting_ms),
        has_worker=found.lease_until_ms > now_ms,
        updated=to_datetime(found.updated_ms),
        reason=(found.reason or "") if found.status is ReaderStatus.PAUSED else "",
        stuck=None if stuck is None else _stuck_at(stuck),
    )


def _stuck(found: Checkpoint) -> StuckEvent | None:
    return read_stuck(found.reason) if found.status is ReaderStatus.STUCK else None


def _shown(found: Checkpoint) -> str:
    stuck = _stuck(found)
    return f"stuck in {stuck.method}" if stuck is not None else str(found.status)


def _is_rebuild(found: Checkpoint) -> bool:
    """Return whether it was to begin anew and has not."""
    stuck = _stuck(found)
    return found.reason == REBUILD or (stuck is not None and stuck.is_rebuild)


def _stuck_at(stuck: StuckEvent) -> StuckAt:
    return StuckAt(
        method=stuck.method or "handle",
        position=stuck.pos,
        instance_id=stuck.instance_id,
        event=stuck.tag,
        error=stuck.type_name,
        message=stuck.message,
        attempts=stuck.attempts,
    )
