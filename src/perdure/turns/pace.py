"""How long histories are replayed without keeping the other instances of a worker waiting.

Replays share the worker's loop with everything else. So they come in slices of a few milliseconds,
and the loop goes round between two of them. What is not done after its first slice goes on beside
the rest. Those that do take turns: many at once would be one long slice again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

SLICE_S = 0.005
"""How long replays may keep the loop. What an instance does takes several rounds of the loop."""

REST_S = 0.0005
"""How long the loop and Python's global lock are left to others after each slice. Without it the
thread that writes would have to wait for that lock at each of its steps."""


class Pace:
    """Measures slices, and lets the loop go round between them."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """Prepare.

        Args:
            now_s: Tells the time, in seconds.
        """
        self._now_s = now_s
        self._began_s = now_s()
        self._one = asyncio.Lock()
        self._is_closed = False

    def begin(self) -> None:
        """A slice begins: the loop has just gone round."""
        self._began_s = self._now_s()

    def is_spent(self) -> bool:
        """Return whether the slice is over."""
        return self._now_s() - self._began_s >= SLICE_S

    async def rest(self) -> None:
        """Leave the loop to others."""
        await asyncio.sleep(REST_S)
        self.begin()

    async def finish(self, slices: Iterator[None]) -> bool:
        """Run what yields between slices to its end, unless the worker stops before.

        Returns:
            Whether it came to its end.
        """
        while not self._is_closed:
            # All who have more to replay have a slice in turn, and the loop goes round before each.
            async with self._one:
                await self.rest()
                if next(slices, self) is self:
                    return True
        return False

    def close(self) -> None:
        """The worker stops: nothing is worth finishing but what is at its end."""
        self._is_closed = True
