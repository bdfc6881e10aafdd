"""Freeing what a worker held of which the server knows that it is connected no more.

A worker whose process dies is gone from the server at once, wherever it ran: the lock of its
connections is free (`store/postgres/presence.py`). A live one whose connections were cut connects
anew at once and has its lock again. So a worker is freed that was gone at several looks in a row,
in a transaction that holds its lock: a worker that comes back in that moment waits, and finds its
leases gone as if they had run out.

Nothing depends on it. What is not known of a server's connections waits for its lease.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from perdure.ids import chance
from perdure.model.turns import NO_PRESENCES, Departed, Presences
from perdure.store.base import Store

logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 1.0
"""Before the next look at those who are gone."""

LOOKS_BEFORE = 3
"""At so many looks in a row a worker must be gone before it is freed. Between the first and the
last a live one has tried twice at least to connect anew (`RECONNECT_S`)."""

SWEEPS = 3
"""How often it is freed, one look after the other, before it retires: what was locked meanwhile is
passed over."""

FLEET_LOOKS_PER_S = 2.0
"""How often the workers of a store look all together, as long as none is gone."""

ALONE_EVERY_S = 10.0
"""How often a worker looks that knows of no other."""


class Departures:
    """Looks which workers are connected no more."""

    def __init__(self, store: Store, *, worker_id: str, freed: Callable[[], None]) -> None:
        """Prepare; nothing is watched yet.

        Args:
            store: Where the workers are.
            worker_id: Who looks.
            freed: Hears that there may be work that another one held.
        """
        self._store = store
        self._worker_id = worker_id
        self._freed = freed
        self._found: Presences = NO_PRESENCES
        self._looks: dict[Departed, int] = {}
        """At how many looks in a row they were gone."""

    async def run(self) -> None:
        """Look for ever. Ends only by cancellation."""
        while True:
            await self.look()
            await asyncio.sleep(self.pause_s())

    def pause_s(self) -> float:
        """Return how long to wait before the next look."""
        if self._looks:
            return LOOK_AGAIN_S
        if self._found.known <= 1:
            return ALONE_EVERY_S
        # Not all at once: the first that sees one gone frees it.
        every_s = max(self._found.known / FLEET_LOOKS_PER_S, LOOK_AGAIN_S)
        return every_s * (0.75 + chance() / 2)

    async def free_own(self) -> None:
        """Free what an earlier process of the same lasting name held, before this one takes work.

        At once: while it lives, no other process may have its name.
        """
        for one in (await self._store.read_presences()).departed:
            if one.worker_id == self._worker_id:
                await self._release(one, retires=True)

    async def look(self) -> None:
        """Look once, and free those who were gone often enough."""
        self._found = await self._store.read_presences()
        gone = [one for one in self._found.departed if one.worker_id != self._worker_id]
        self._looks = {one: self._looks.get(one, 0) + 1 for one in gone}
        for one in gone:
            if self._looks[one] >= LOOKS_BEFORE:
                await self._free(one)
        for key in self._found.stale:
            await self._store.forget_presence(key)

    async def _free(self, one: Departed) -> None:
        sweep = self._looks[one] - LOOKS_BEFORE + 1
        is_last = sweep >= SWEEPS
        if not await self._release(one, retires=is_last):
            del self._looks[one]  # It is back, or another worker is freeing it.
            return
        if is_last:
            del self._looks[one]
        self._freed()
        if sweep == 1:
            logger.info(
                "a worker is connected to the database no more; what it held goes to others",
                extra={"worker_id": one.worker_id, "host": one.host, "pid": one.pid},
            )

    async def _release(self, one: Departed, *, retires: bool) -> bool:
        was_freed = await self._store.release_worker(
            one.worker_id,
            lease_ms=one.lease_ms,
            keeps_sessions=one.is_lasting,
            departed=one,
            retires=retires,
        )
        if was_freed and retires:
            await self._store.forget_presence(one.key)
        return was_freed
