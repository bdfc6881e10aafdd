"""How much there is in the store, counted now and then: to count a large store takes long, and many
pages ask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from perdure.client.client import Client
from perdure.model.admin import StoreTotals

KEPT_S = 2.0
"""How old the numbers may be, at least."""
KEPT_FACTOR = 50.0
"""How much longer they are kept than it took to count them: so counting costs 2 % at most."""


class RecentTotals:
    """The totals of a store, for all requests of about the same time."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._counting: asyncio.Future[None] | None = None
        self._last: StoreTotals | None = None
        self._until_s = 0.0

    async def get(self, client: Client, *, within_s: float | None = None) -> StoreTotals | None:
        """Return the totals, or what they were a moment ago.

        Args:
            client: Counts.
            within_s: How long the caller waits. If that is not long enough, it gets those of the
                last time, None before the first; the counting goes on for those who ask later.
        """
        if self._last is not None and self._monotonic() < self._until_s:
            return self._last
        if self._counting is None or self._counting.done():
            self._counting = asyncio.ensure_future(self._count(client))
            # One that fails while no caller waits for it is begun anew by the next.
            self._counting.add_done_callback(lambda one: one.cancelled() or one.exception())
        done, _ = await asyncio.wait([self._counting], timeout=within_s)
        for one in done:
            one.result()
        return self._last

    async def _count(self, client: Client) -> None:
        began_s = self._monotonic()
        self._last = await client.metrics()
        ended_s = self._monotonic()
        self._until_s = ended_s + max(KEPT_S, KEPT_FACTOR * (ended_s - began_s))
