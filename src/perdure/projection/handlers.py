"""What projections do with the events they are given."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from perdure.authoring.deciders.feed import EventFilter, EventMeta
from perdure.authoring.deciders.projection import Projection, SqlProjection, time_of
from perdure.errors import RowError, UsageError
from perdure.model.feeds import FeedEvent
from perdure.model.options import Retry
from perdure.model.tables import Tables
from perdure.projection.handler_watch import HandlerWatch
from perdure.projection.lease import ReaderLease
from perdure.projection.reading import LET_GO_WITHIN_S, EventFailedError, StartFailedError

MAX_WORK_S = 0.05
"""How long a transaction of a projection may take before the rest of its batch goes into the next:
everybody else waits for it."""

STATEMENTS_LATER_S = 0.5
"""How long after the limit of a handler its statements are ended: by then it is known that it was
the handler, although its own clock starts a little later."""

START = -1
"""Stands for the place of an event where a projection sets itself up."""

NO_RESET = (
    "the projection has no reset(), so it cannot be rebuilt: write one that removes what it has "
    "written, and rebuild it again"
)


class ReadEvent(NamedTuple):
    """An event that a projection wants."""

    event: Any
    meta: EventMeta
    place: int
    """Where it was in the batch that was read, from 0."""


class Readable(NamedTuple):
    """What could be read of a batch."""

    events: list[ReadEvent]
    error: EventFailedError | None
    """Why the event behind the last of them could not be read; None: all were."""


def read_all(filter: EventFilter, events: Sequence[FeedEvent]) -> Readable:
    """Read events, up to the first that cannot be read, and leave out what is not wanted."""
    found: list[ReadEvent] = []
    for index, stored in enumerate(events):
        try:
            read = filter.read(stored)
        except Exception as error:
            # Whatever upcasting raises is as much a handler's failure as what `handle` raises.
            return Readable(found, EventFailedError(index, error))
        if read is not None:
            found.append(ReadEvent(*read, index))
    return Readable(found, None)


class _OfProjection:
    """What handlers for both sorts of projections say alike."""

    def __init__(self, projection: Projection[Any] | SqlProjection[Any]) -> None:
        self.name: str = projection.name
        self.filter: EventFilter = projection.filter
        self.batch: int = projection.batch
        self.retry: Retry = projection.retry

    @staticmethod
    def check_reset(projection: Projection[Any] | SqlProjection[Any]) -> None:
        """Refuse to begin anew with what cannot be emptied."""
        if not projection.can_rebuild:
            raise StartFailedError(UsageError(NO_RESET))


class ProjectionHandler(_OfProjection):
    """Hands events to a projection that writes anywhere, at least once each."""

    def __init__(self, projection: Projection[Any]) -> None:
        super().__init__(projection)
        self._projection = projection

    async def prepare(self, lease: ReaderLease) -> None:
        """Remove everything, if it is to be rebuilt."""
        if not lease.must_reset:
            return
        self.check_reset(self._projection)
        await lease.ensure()
        try:
            await self._projection.reset()
        except Exception as error:
            raise StartFailedError(error) from error

    async def handle_all(self, events: Sequence[FeedEvent], end: int, lease: ReaderLease) -> None:
        """Handle events one by one, then move the position; also when it is told to stop."""
        readable = read_all(self.filter, events)
        handled = 0
        try:
            for event, meta, place in readable.events:
                await lease.ensure()
                await self._handle(event, meta, place)
                handled = meta.position
        except BaseException:
            # Also when told to stop: what was handled is not handled again.
            async with asyncio.timeout(LET_GO_WITHIN_S):
                await lease.advance(handled)
            raise
        if readable.error is None:
            await lease.advance(end)
        else:
            await lease.advance(pos_before(events, readable.error.index))
            raise readable.error

    async def _handle(self, event: Any, meta: EventMeta, place: int) -> None:
        within_s = time_of(self._projection).total_seconds()
        try:
            async with asyncio.timeout(within_s) as limit:
                await self._projection.handle(event, meta)
        except TimeoutError as error:
            if not limit.expired():
                raise EventFailedError(place, error) from error
            late = TimeoutError(f"handle has taken more than {within_s:g} s")
            raise EventFailedError(place, late) from error
        except Exception as error:
            raise EventFailedError(place, error) from error


class _Late(NamedTuple):
    """What took too long."""

    place: int
    error: TimeoutError


class SqlHandler(_OfProjection):
    """Hands events to a projection that writes to its own tables in the store, exactly once."""

    def __init__(
        self,
        projection: SqlProjection[Any],
        watch: HandlerWatch,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(projection)
        self._projection = projection
        self._watch = watch
        self._limit_s = time_of(projection).total_seconds()
        self._now_s = now_s
        self._late: _Late | None = None
        """Not run again in this attempt: a transaction that failed is run anew, perhaps often."""

    async def prepare(self, lease: ReaderLease) -> None:
        """Make the tables; anew, if it is to be rebuilt."""
        projection, must_reset, pos = self._projection, lease.must_reset, lease.pos
        if must_reset:
            self.check_reset(projection)
        self._late = None

        def begin(tables: Tables) -> None:
            projection.setup(tables)
            if must_reset:
                projection.reset(tables)
                # It may have removed the tables.
                projection.setup(tables)

        def work(tables: Tables) -> int:
            try:
                self._call(START, "reset" if must_reset else "setup", lambda: begin(tables))
            except Exception as error:
                raise StartFailedError(error) from error
            return pos

        try:
            await lease.work(work, within_s=self._limit_s + STATEMENTS_LATER_S, defining=True)
        except RowError as error:
            # A statement has ended the transaction itself.
            raise StartFailedError(self._late.error if self._late else error) from error

    def _call(self, place: int, method: str, handle: Callable[[], None]) -> None:
        """Run a method of the projection, not longer than it may."""
        if self._late is not None and self._late.place == place:
            raise self._late.error
        late = self._watch.run(self.name, method, self._limit_s, handle)
        if late is not None:
            self._late = _Late(place, late)
            raise late

    async def handle_all(self, events: Sequence[FeedEvent], end: int, lease: ReaderLease) -> None:
        """Write down events and move the position, in as few transactions as are short enough."""
        self._late = None
        readable = read_all(self.filter, events)
        if readable.error is None:
            await self._write_all(readable.events, end, lease)
        else:
            await self._write_all(readable.events, pos_before(events, readable.error.index), lease)
            raise readable.error

    async def _write_all(self, events: Sequence[ReadEvent], end: int, lease: ReaderLease) -> None:
        if not events:
            await lease.advance(end)
            return
        try:
            while lease.pos < end:
                await self._write(
                    [one for one in events if one.meta.position > lease.pos], end, lease
                )
        except EventFailedError as failure:
            # All of that transaction was undone: once more, without the one that failed.
            before = [one for one in events if one.place < failure.index]
            if before and before[-1].meta.position > lease.pos:
                await self._write_all(before, before[-1].meta.position, lease)
            raise

    async def _write(self, events: Sequence[ReadEvent], end: int, lease: ReaderLease) -> None:
        def work(tables: Tables) -> int:
            until_s = self._now_s() + MAX_WORK_S
            for number, (event, meta, place) in enumerate(events):
                if number and self._now_s() >= until_s:
                    return events[number - 1].meta.position
                handle = partial(self._projection.handle, event, meta, tables)
                try:
                    self._call(place, "handle", handle)
                except Exception as error:
                    raise EventFailedError(place, error) from error
            return end

        try:
            # Its last event begins before that much of it is over.
            most_s = MAX_WORK_S + self._limit_s
            await lease.work(work, within_s=most_s + STATEMENTS_LATER_S)
        except RowError as error:
            if self._late is not None and any(one.place == self._late.place for one in events):
                raise EventFailedError(*self._late) from error
            # A statement has ended the transaction itself, and it is not known for which event.
            first = events[0]
            if len(events) == 1:
                raise EventFailedError(first.place, error) from error
            await self._write(events[:1], first.meta.position, lease)


def pos_before(events: Sequence[FeedEvent], index: int) -> int:
    """Return where to stand right before an event of a batch; 0: where one stands already."""
    return events[index - 1].pos if index else 0
