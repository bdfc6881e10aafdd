"""Waiting for hints of other processes."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from perdure.model.hints import Hint
from perdure.store.base import Store


class Hearing:
    """Hears hints of one kind, from when it is made until it is closed; for one task of a loop.

    Make it before reading: what changes after the read is then never missed, only heard late where
    the store is not told of it.
    """

    def __init__(self, store: Store, kind: Hint) -> None:
        self._store = store
        self._kind = kind
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._seen = store.change_count(kind)
        self._stop = store.listen_changes(kind, self._hear)

    async def wait(self, within_s: float) -> bool:
        """Wait until others have given a hint since the last time, but not longer than that; tell
        whether they have."""
        self._rung.clear()
        if self._store.change_count(self._kind) == self._seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._rung.wait()
        before, self._seen = self._seen, self._store.change_count(self._kind)
        return self._seen != before

    def close(self) -> None:
        """Hear no more."""
        self._stop()

    def _hear(self) -> None:
        with suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(self._rung.set)
