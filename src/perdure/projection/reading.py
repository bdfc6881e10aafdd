"""Reading the feed of deciders' events under a name: one loop per projection or subscription.

Of all workers that have it, the one with the lease reads; the others look now and then whether the
lease has ended. Events come in the order of their commits and in batches. An event that cannot be
handled is tried again, alone, with growing pauses; when the attempts are used up the reader is
stuck, where everybody can see it, and no event after it is handled until a person decides.

Nothing that a handler raises ends the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn, Protocol

import msgspec

from perdure.authoring.deciders.feed import EventFilter
from perdure.clock import to_ms
from perdure.errors import LeaseLostError
from perdure.ids import chance, fresh_id
from perdure.limits import MAX_MESSAGE_CHARS
from perdure.model.feeds import FeedEvent, StuckEvent
from perdure.model.jobs import JobPolicy
from perdure.model.options import Retry, WorkerOptions, delay_after, job_policy
from perdure.model.worker_options import renew_every
from perdure.projection.lease import ReaderLease
from perdure.projection.wake import FeedWake
from perdure.store.base import Store
from perdure.telemetry import Metrics, shown_error

logger = logging.getLogger(__name__)

STAND_BY_S = 1.0
"""How often a reader that another worker has, or that is stopped, is asked for."""

SKIP_EVERY_S = 1.0
"""How often a position is written down that moves only past events of others."""

LET_GO_WITHIN_S = 5.0
"""How long a stopping reader waits for the store; a lease that it cannot give back runs out."""


class EventFailedError(Exception):
    """An event of a batch could not be handled; those before it were, and are checkpointed."""

    def __init__(self, index: int, cause: Exception) -> None:
        super().__init__(f"event {index} of a batch: {type(cause).__name__}")
        self.index = index
        self.cause = cause


class StartFailedError(Exception):
    """A projection could not set itself up, or could not begin anew."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(type(cause).__name__)
        self.cause = cause


class FeedHandler(Protocol):
    """What is done with the events that are read."""

    @property
    def name(self) -> str:
        """What its position is kept under."""
        ...

    @property
    def filter(self) -> EventFilter:
        """Which events it gets."""
        ...

    @property
    def batch(self) -> int:
        """How many it gets at once."""
        ...

    @property
    def retry(self) -> Retry:
        """What to do when it cannot handle one."""
        ...

    async def prepare(self, lease: ReaderLease) -> None:
        """Make ready, whenever the right to read was got.

        Raises:
            StartFailedError: It cannot.
        """
        ...

    async def handle_all(self, events: Sequence[FeedEvent], end: int, lease: ReaderLease) -> None:
        """Handle events and move the position to `end`, which is not before the last of them.

        Raises:
            EventFailedError: One could not be handled. The position stands right before it.
            LeaseLostError: Another worker reads.
        """
        ...


class FeedReader:
    """Reads under one name, whenever it can have the lease."""

    def __init__(
        self,
        store: Store,
        handler: FeedHandler,
        options: WorkerOptions,
        metrics: Metrics,
        wake: FeedWake,
        *,
        worker_id: str,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._handler = handler
        self._name = handler.name
        self._policy = msgspec.json.decode(job_policy(handler.retry, None), type=JobPolicy)
        self._wake = wake
        self._lease = fresh_id()
        self._worker_id = worker_id
        self._lease_ms = to_ms(options.lease_for)
        self._renew_every_s = renew_every(options.lease_for).total_seconds()
        self._failures = 0
        """How often the event at which it stands could not be handled."""
        self._write_at_s = 0.0
        """When a position that only passes over events of others is written down next."""

    async def run(self) -> None:
        """Read for ever. Ends only by cancellation, or with an error of the store."""
        try:
            while True:
                self._wake.clear(self._name)
                found = await self._store.feed.claim_feed(
                    self._name,
                    lease=self._lease,
                    lease_ms=self._lease_ms,
                    worker_id=self._worker_id,
                )
                if found is None:
                    await self._rest(min(STAND_BY_S, self._renew_every_s))
                else:
                    await self._hold(
                        ReaderLease(
                            self._store,
                            found,
                            lease=self._lease,
                            lease_ms=self._lease_ms,
                            worker_id=self._worker_id,
                        )
                    )
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(LET_GO_WITHIN_S):
                    await self._store.feed.release_feed(self._name, lease=self._lease)

    async def _hold(self, lease: ReaderLease) -> None:
        """Read until the lease is lost or the reader is stuck."""
        self._failures = 0
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep(lease))
                await self._read(lease)
        except ExceptionGroup as group_error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # Told to stop while something went wrong: stopping is what counts.
                raise asyncio.CancelledError from group_error
            _, others = group_error.split(LeaseLostError)
            if others is not None:
                raise others.exceptions[0] from None
            logger.info(
                "projection %r is not read here for now: %s",
                self._name,
                group_error.exceptions[0],
                extra={"projection": self._name},
            )

    async def _keep(self, lease: ReaderLease) -> None:
        """Renew the lease, also while a handler takes long."""
        while True:
            await asyncio.sleep(self._renew_every_s)
            await lease.renew()

    async def _read(self, lease: ReaderLease) -> None:
        while not await self._prepared(lease):
            pass
        batch = self._handler.batch
        # Where workers were lost, one at a time: then it shows which event it is.
        singly = batch if lease.losses else 0
        wanted = self._handler.filter
        while True:
            self._wake.clear(self._name)
            events, end = await self._store.feed.read_feed(
                after=lease.seen,
                limit=1 if singly else batch,
                deciders=wanted.deciders,
                tags=wanted.tags,
            )
            # Afterwards: what was recorded since a client paused the reader is not handled.
            await lease.confirm()
            if events:
                # After a failure alone: those behind it are not handled in vain again and again.
                singly = max(singly - 1, 0) if await self._handled(events, end, lease) else 1
            elif end > lease.seen:
                lease.seen = end
            else:
                await self._await_events(lease)

    # ------------------------------------------------------------------- handling

    async def _prepared(self, lease: ReaderLease) -> bool:
        try:
            await self._handler.prepare(lease)
        except StartFailedError as failure:
            await self._stumble(lease, failure.cause, None)
            return False
        self._failures = 0
        return True

    async def _handled(self, events: Sequence[FeedEvent], end: int, lease: ReaderLease) -> bool:
        await self._refuse_deadly(lease, events[0])
        try:
            await self._handler.handle_all(events, end, lease)
        except EventFailedError as failure:
            if failure.index > 0:
                self._metrics.projected.add((self._name,), by=failure.index)
                self._failures = 0
            await self._stumble(lease, failure.cause, events[failure.index])
            return False
        self._failures = 0
        self._metrics.projected.add((self._name,), by=len(events))
        return True

    async def _refuse_deadly(self, lease: ReaderLease, event: FeedEvent) -> None:
        """Stop at an event that every worker was lost with which tried to handle it."""
        most = self._policy.max_attempts
        if most is not None and lease.losses >= most:
            error = LeaseLostError("the worker was lost each time while it handled this event")
            await self._get_stuck(lease, _stuck(error, event, lease.losses, is_rebuild=False))

    async def _stumble(self, lease: ReaderLease, error: Exception, event: FeedEvent | None) -> None:
        """Wait before the next attempt, or stop if there is none."""
        self._failures += 1
        self._metrics.projection_failures.add((self._name, type(error).__qualname__))
        stuck = _stuck(error, event, self._failures, is_rebuild=lease.must_reset)
        if self._is_final(error):
            await self._get_stuck(lease, stuck)
        tried = f"handle {_event(stuck)}" if event is not None else f"get through {stuck.method}"
        logger.warning(
            "projection %r could not %s and tries again: %s",
            self._name,
            tried,
            shown_error(error),
            extra=self._facts(stuck),
        )
        delay_ms = delay_after(self._policy, self._failures, chance=chance())
        await asyncio.sleep(delay_ms / 1000)

    async def _get_stuck(self, lease: ReaderLease, stuck: StuckEvent) -> NoReturn:
        await lease.get_stuck(stuck)
        where = f"in {stuck.method}" if stuck.method else f"at {_event(stuck)}"
        logger.error(
            "projection %r is stuck %s: %s",
            self._name,
            where,
            stuck.type_name,
            extra=self._facts(stuck),
        )
        raise LeaseLostError(f"reader {self._name!r} is stuck")

    def _facts(self, stuck: StuckEvent) -> dict[str, object]:
        # Not the text of the error: it may quote values of users.
        return {
            "projection": self._name,
            "position": stuck.pos,
            "instance_id": stuck.instance_id,
            "error_type": stuck.type_name,
            "attempts": stuck.attempts,
        }

    def _is_final(self, error: Exception) -> bool:
        names = {kind.__name__ for kind in type(error).__mro__}
        if not names.isdisjoint(self._policy.no_retry):
            return True
        most = self._policy.max_attempts
        return most is not None and self._failures >= most

    # ------------------------------------------------------------------- waiting

    async def _await_events(self, lease: ReaderLease) -> None:
        """Wait until there may be more, and write down now and then what was passed over."""
        if lease.seen == lease.pos:
            await self._rest(self._renew_every_s)
            self._write_at_s = asyncio.get_running_loop().time() + SKIP_EVERY_S
            return
        left_s = self._write_at_s - asyncio.get_running_loop().time()
        if left_s > 0:
            await self._rest(left_s)
        else:
            await lease.advance(lease.seen)

    async def _rest(self, most_s: float) -> None:
        """Wait to be woken, not longer than so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._wake.wait(self._name)


def _event(stuck: StuckEvent) -> str:
    return f"event {stuck.pos} ({stuck.tag} of instance {stuck.instance_id!r})"


def _stuck(
    error: Exception, event: FeedEvent | None, attempts: int, *, is_rebuild: bool
) -> StuckEvent:
    kind, text = type(error).__qualname__, str(error)[:MAX_MESSAGE_CHARS]
    if event is None:
        return StuckEvent(0, kind, text, attempts, is_rebuild=is_rebuild)
    return StuckEvent(event.pos, kind, text, attempts, event.instance_id, event.tag)
