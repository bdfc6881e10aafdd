"""Callers that wait for the store, each for so long and no longer.

One timer for all of them: a timer per call would cost as much as a tenth of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush

MANY = 1_000
"""How many that have their answer may be among those that wait, before they are sorted out."""


class Patience:
    """Which callers to tell that the store has not answered, the first that is due first."""

    def __init__(self) -> None:
        self._waiting: dict[int, Callable[[], None]] = {}
        self._due: list[tuple[float, int]] = []
        """A heap of all who wait, and of some who do no more."""
        self._last = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, patience_s: float, lose: Callable[[], None]) -> int:
        """Have a function called after that time, unless `end` is."""
        until_s = asyncio.get_running_loop().time() + patience_s
        self._last += 1
        self._waiting[self._last] = lose
        heappush(self._due, (until_s, self._last))
        self._wake_at(until_s)
        return self._last

    def end(self, number: int) -> None:
        """The store has answered."""
        self._waiting.pop(number, None)
        if len(self._due) > 2 * len(self._waiting) + MANY:
            self._due = [one for one in self._due if one[1] in self._waiting]
            heapify(self._due)

    def _wake_at(self, until_s: float) -> None:
        if self._timer is not None and self._timer.when() <= until_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(until_s, self._lose_late)

    def _lose_late(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._timer = None
        while self._due and (self._due[0][0] <= now_s or self._due[0][1] not in self._waiting):
            _, number = heappop(self._due)
            lose = self._waiting.pop(number, None)
            if lose is not None:
                lose()
        if self._due:
            self._wake_at(self._due[0][0])
