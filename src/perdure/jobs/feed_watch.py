"""Waiting for events of deciders' instances.

One look at the feed serves all who wait: it tells whose instances have recorded something, and
those look for themselves. What this process commits is heard at once, what others do soon.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from perdure.backoff import LOOK_MAX_S, LOOK_MIN_S, GrowingPause
from perdure.errors import StoreError
from perdure.model.hints import Hint
from perdure.store.base import Store

logger = logging.getLogger(__name__)

PAGE = 500
"""Events that one look reads at a time."""


class FeedWatch:
    """Wakes those who wait for events of an instance when it has recorded some."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None
        self._known = asyncio.Event()
        """Set when it is known from where on the feed is read."""
        self._heard = asyncio.Event()

    @asynccontextmanager
    async def watching(self, instance_id: str) -> AsyncIterator[asyncio.Event]:
        """Give an event that is set whenever the instance has recorded something from now on."""
        news = asyncio.Event()
        self._waiting.setdefault(instance_id, []).append(news)
        try:
            self._look_on()
            await self._known.wait()
            yield news
        finally:
            others = self._waiting[instance_id]
            others.remove(news)
            if not others:
                del self._waiting[instance_id]
            if not self._waiting:
                self._heard.set()

    def _look_on(self) -> None:
        if self._task is None or self._task.done():
            # Under the loop that runs now: a client may be closed and opened again.
            self._known, self._heard = asyncio.Event(), asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        stop = self._store.feed.listen_feed(self._hearer())
        try:
            pos: int | None = None
            while self._waiting:
                try:
                    if pos is None:
                        pos = await self._store.feed.feed_end()
                        self._known.set()
                    pos = await self._tell(pos)
                except StoreError:
                    logger.warning("could not look for events this time", exc_info=True)
                await self._rest()
        finally:
            stop()

    async def _tell(self, pos: int) -> int:
        """Wake those whose instances have recorded something; return up to where was looked."""
        while True:
            events, end = await self._store.feed.read_feed(after=pos, limit=PAGE)
            for instance_id in {event.instance_id for event in events}:
                for news in self._waiting.get(instance_id, ()):
                    news.set()
            if len(events) < PAGE:
                return max(pos, end)
            pos = end

    async def _rest(self) -> None:
        """Wait until something was committed."""
        seen = self._store.change_count(Hint.NEWS)
        pause = GrowingPause(LOOK_MIN_S, LOOK_MAX_S)
        while not self._heard.is_set() and self._store.change_count(Hint.NEWS) == seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause.seconds):
                    await self._heard.wait()
            if pause.is_longest:
                break  # A change count is a hint.
            pause.grow()
        self._heard.clear()

    def _hearer(self) -> Callable[[], None]:
        loop, heard = asyncio.get_running_loop(), self._heard

        def hear() -> None:
            # A commit may be answered on the loop of another thread.
            if not loop.is_closed():
                loop.call_soon_threadsafe(heard.set)

        return hear
