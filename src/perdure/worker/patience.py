"""Callers that wait for the store, each for so long and no longer.

One timer for all of them: a timer per call would cost as much as a tenth of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Patience:
    """Whom to tell that the store has not answered, oldest first."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[float, Callable[[], None]]] = {}
        self._last = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, patience_s: float, lose: Callable[[], None]) -> int:
        """Have a function called after that time, unless `end` is; all wait equally long."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + patience_s
        self._last += 1
        self._waiting[self._last] = (until_s, lose)
        if self._timer is None:
            self._timer = loop.call_at(until_s, self._look)
        return self._last

    def end(self, number: int) -> None:
        """The store has answered."""
        self._waiting.pop(number, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for number, (until_s, lose) in list(self._waiting.items()):
            if until_s > loop.time():
                self._timer = loop.call_at(until_s, self._look)
                return
            del self._waiting[number]
            lose()
