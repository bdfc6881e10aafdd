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
    """The totals of a store, for everyone who asks at about the same time."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._counting = asyncio.Lock()
        self._last: StoreTotals | None = None
        self._until_s = 0.0

    async def get(self, client: Client) -> StoreTotals:
        """Return the totals, or what they were a moment ago."""
        async with self._counting:
            began_s = self._monotonic()
            if self._last is None or began_s >= self._until_s:
                self._last = await client.metrics()
                ended_s = self._monotonic()
                self._until_s = ended_s + max(KEPT_S, KEPT_FACTOR * (ended_s - began_s))
            return self._last
