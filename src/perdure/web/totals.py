"""What takes long to count, counted now and then: many pages ask for it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from perdure.client.client import Client
from perdure.client.reading.overview import QueueInfo, queues_of
from perdure.model.admin import QueueDepth, StoreTotals

KEPT_S = 2.0
"""How old the numbers of a page may be, at least."""
KEPT_FACTOR = 50.0
"""How much longer they are kept than it took to count them: so counting costs 2 %, if it does not
take longer than a second."""
MAX_AGE_S = 60.0
"""How old they may become by that: an autoscaler goes by them."""
MAX_KEPT = 32
"""How many numbers are kept that differ by what is asked for."""

T = TypeVar("T")


class RecentValue(Generic[T]):
    """A value for all requests of about the same time."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._counting: asyncio.Future[T] | None = None
        self._last: T | None = None
        self._counted_s = self._took_s = 0.0
        self._forgotten = 0
        """How often what was known has been forgotten."""

    async def get(
        self,
        count: Callable[[], Awaitable[T]],
        *,
        within_s: float | None = None,
        kept_s: float = KEPT_S,
    ) -> T | None:
        """Return the value, or what it was a moment ago.

        Args:
            count: Finds it.
            within_s: How long the caller waits. If that is not long enough, it gets that of the
                last time, None before the first; the counting goes on for those who ask later.
            kept_s: How old it may be in any case.
        """
        kept_s = max(kept_s, min(KEPT_FACTOR * self._took_s, MAX_AGE_S))
        if self._last is not None and self._monotonic() < self._counted_s + kept_s:
            return self._last
        counting = self._counting
        if counting is None or counting.done():
            counting = self._counting = asyncio.ensure_future(self._count(count, self._forgotten))
            # One that fails while no caller waits for it is begun anew by the next.
            counting.add_done_callback(lambda one: one.cancelled() or one.exception())
        done, _ = await asyncio.wait([counting], timeout=within_s)
        for one in done:
            return one.result()
        return self._last

    def forget(self) -> None:
        """Count anew for those who ask from now on: something was done."""
        self._forgotten += 1
        self._last = self._counting = None

    async def _count(self, count: Callable[[], Awaitable[T]], forgotten: int) -> T:
        began_s = self._monotonic()
        found = await count()
        if forgotten == self._forgotten:  # If not, it may have been counted before that was done.
            self._last = found
            self._counted_s = self._monotonic()
            self._took_s = self._counted_s - began_s
        return found


class RecentTotals:
    """The totals of a store."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._value: RecentValue[StoreTotals] = RecentValue(monotonic)

    def forget(self) -> None:
        """Count anew for those who ask from now on: something was done."""
        self._value.forget()

    async def get(self, client: Client, *, within_s: float | None = None) -> StoreTotals | None:
        """Return how much there is in a store, or what it was a moment ago; see `RecentValue`."""
        return await self._value.get(client.metrics, within_s=within_s)

    async def get_latest(self, client: Client) -> StoreTotals:
        """Return the same for a program, which is to see soon what it has done: it waits for the
        numbers, and they are older only where counting takes long."""
        totals = await self._value.get(client.metrics, kept_s=0.0)
        assert totals is not None, "they were waited for"
        return totals


class RecentQueues:
    """What waits in a store: all of it is looked at, however much that is."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._depths: RecentValue[list[QueueDepth]] = RecentValue(monotonic)

    def forget(self) -> None:
        """Count anew for those who ask from now on: something was done."""
        self._depths.forget()

    async def get(self, client: Client) -> list[QueueInfo]:
        """Return what waits for which definition, or did a moment ago, and who takes it now; see
        `RecentValue`."""
        core = client._core
        depths = await self._depths.get(core.store.admin.queue_depths, kept_s=0.0)
        assert depths is not None, "it was waited for"
        return queues_of(depths, await core.live_workers())


class RecentByKey(Generic[T]):
    """Values of one kind that differ by what is asked for, those that were asked for last."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._values: OrderedDict[Hashable, RecentValue[T]] = OrderedDict()

    def of(self, key: Hashable) -> RecentValue[T]:
        """Return the value under a key."""
        found = self._values.pop(key, None) or RecentValue(self._monotonic)
        self._values[key] = found
        if len(self._values) > MAX_KEPT:
            self._values.popitem(last=False)
        return found
