"""Freeing what a worker of the same host held whose process is gone, without waiting for leases.

The workers of a place are a ring, by their ids: each looks after the next one whose process is not
its own, twice a second. If that is gone for certain (`process_id`), everything it held is freed in
a transaction that checks that it is still that very process which is meant, and the one behind it
is next. Now and then each looks at all, in case the one that should have is frozen or busy.

Who the neighbours are comes with each sign of life, and is asked for when others have changed
something: one that has just come may have taken work. So an idle fleet asks nothing more.

What the database server had under way for a process may be done after its death, and what is locked
meanwhile is passed over. So there it is freed several times before the worker retires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from perdure.model.hints import KINDS
from perdure.model.turns import Neighbour, ProcessId
from perdure.store.base import Store
from perdure.worker.process_id import is_gone

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5

ALL_EVERY = 8
"""At the first of so many looks all neighbours are looked at."""

ASK_EVERY = 2
"""At the last of so many looks the store is asked for neighbours, if others have changed
something."""

SWEEPS_ON_SERVER = 3
"""How often a dead worker is freed on a server, one look after the other."""


class Neighbours:
    """Looks after the other workers of this process's place."""

    def __init__(
        self,
        store: Store,
        *,
        worker_id: str,
        freed: Callable[[], None],
        is_gone: Callable[[int, int], bool] = is_gone,
    ) -> None:
        """Prepare; nothing is watched yet.

        Args:
            store: Where the workers are.
            worker_id: Who looks.
            freed: Hears that there may be work that another one held.
            is_gone: Tells of a pid and its start whether that process is dead for certain.
        """
        self.own = ProcessId("", 0, 0)
        """The process of the worker, once it is open."""
        self._store = store
        self._worker_id = worker_id
        self._freed = freed
        self._is_gone = is_gone
        self._others: list[Neighbour] = []
        self._sweeps = SWEEPS_ON_SERVER if store.is_server else 1
        self._swept: dict[Neighbour, int] = {}
        """How often dead ones were freed."""
        self._looks = 0
        self._seen_changes: tuple[int, ...] = ()

    def learn(self, others: list[Neighbour]) -> None:
        """Take over who the other workers of the place are."""
        self._others = sorted(others)
        self._swept = {one: count for one, count in self._swept.items() if one in others}

    async def run(self) -> None:
        """Look for ever. Ends only by cancellation."""
        while True:
            if self.own.place:
                await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Look once, and free what the dead held."""
        looks_at_all = self._looks % ALL_EVERY == 0
        self._looks += 1
        if self._looks % ASK_EVERY == 0:
            await self._ask()
        for one in self._ring():
            if self._is_gone(one.pid, one.born):
                await self._free(one)
            elif not looks_at_all:
                break

    async def _ask(self) -> None:
        """Learn of those that have come, if others have changed anything."""
        changes = tuple(self._store.change_count(kind) for kind in KINDS)
        if changes != self._seen_changes:
            self._seen_changes = changes
            self.learn(await self._store.read_neighbours(self._worker_id, self.own.place))

    def _ring(self) -> Iterator[Neighbour]:
        """Return the others in the order in which this one looks after them."""
        behind = [one for one in self._others if one.worker_id > self._worker_id]
        before = [one for one in self._others if one.worker_id < self._worker_id]
        own = (self.own.pid, self.own.born)
        return (one for one in (*behind, *before) if (one.pid, one.born) != own)

    async def _free(self, dead: Neighbour) -> None:
        sweep = self._swept[dead] = self._swept.get(dead, 0) + 1
        is_last = sweep >= self._sweeps
        was_freed = await self._store.release_worker(
            dead.worker_id,
            lease_ms=dead.lease_ms,
            keeps_sessions=dead.is_lasting,
            process=ProcessId(self.own.place, dead.pid, dead.born),
            retires=is_last,
        )
        if is_last:
            self._others = [one for one in self._others if one != dead]
            self._swept.pop(dead, None)  # A sign of life may have come in between.
        if not was_freed:
            return
        self._freed()
        if sweep == 1:
            logger.info(
                "a worker's process is gone; what it held goes to others at once",
                extra={"worker_id": dead.worker_id, "pid": dead.pid},
            )
