"""Telling readers of the feed that there may be more: at once for what this process commits, soon
for what others do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from perdure.backoff import GrowingPause
from perdure.model.hints import Hint
from perdure.model.options import WorkerOptions
from perdure.store.base import Store


class FeedWake:
    """One for all readers of a worker."""

    def __init__(self, store: Store, options: WorkerOptions, names: Iterable[str]) -> None:
        self._store = store
        self._min_s = options.poll_min.total_seconds()
        self._max_s = options.poll_max.total_seconds()
        self._rung = {name: asyncio.Event() for name in names}

    def clear(self, name: str) -> None:
        """What rings from here on is news to a reader."""
        self._rung[name].clear()

    async def wait(self, name: str) -> None:
        """Wait for news."""
        await self._rung[name].wait()

    def ring(self) -> None:
        """Wake all readers."""
        for rung in self._rung.values():
            rung.set()

    async def run(self) -> None:
        """Listen for ever. Ends only by cancellation."""
        stop = self._store.feed.listen_feed(self._heard(asyncio.get_running_loop()))
        try:
            await self._watch()
        finally:
            stop()

    def _heard(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        def heard() -> None:
            # A commit may be answered on the loop of another thread.
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.ring)

        return heard

    async def _watch(self) -> None:
        """Ring when another store has changed something."""
        seen = self._store.change_count(Hint.NEWS)
        pause = GrowingPause(self._min_s, self._max_s)
        while True:
            await asyncio.sleep(pause.seconds)
            changes = self._store.change_count(Hint.NEWS)
            if changes == seen:
                pause.grow()
            else:
                seen = changes
                pause.restart()
                self.ring()
