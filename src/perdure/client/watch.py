"""Waiting for instances to end, with one question to the store for all that are waited for.

Ends in this process are told at once by the worker; the others are found by looking, and looking is
worth it only after the store has changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from perdure.errors import InstanceNotFoundError, StoreError
from perdure.model.instances import InstanceRow
from perdure.model.turns import Outcome
from perdure.store.base import Store
from perdure.worker.endings import Endings

logger = logging.getLogger(__name__)

LOOK_MIN_S = 0.005
LOOK_MAX_S = 0.25
LOOK_HERE_S = 2.0
"""How often to look, without a sign of change, at instances that are in memory here: their ends are
told, unless somebody else ended them."""


class Watch:
    """Looks for the ends of instances that somebody waits for."""

    def __init__(
        self,
        store: Store,
        endings: Endings,
        is_here: Callable[[str], bool],
        tell: Callable[[str, int, Outcome], None],
    ) -> None:
        """Prepare.

        Args:
            store: Where to look.
            endings: Who waits for what.
            is_here: Tells whether a worker of this process has an instance in memory, and so will
                most likely be the one to end it, and tell.
            tell: Called with an end that was found by looking.
        """
        self._store = store
        self._endings = endings
        self._is_here = is_here
        self._tell = tell
        self._task: asyncio.Task[None] | None = None

    async def ended(self, instance_id: str) -> Outcome:
        """Wait until an instance has ended.

        Raises:
            InstanceNotFoundError: There is no such instance.
        """
        future = self._endings.expect(instance_id)
        try:
            if not self._is_here(instance_id):
                [row] = await self._store.read_instances([instance_id])
                if row is None:
                    raise InstanceNotFoundError(instance_id)
                if row.status.is_terminal:
                    return outcome_in(row)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._look())
            return await future
        finally:
            self._endings.forget(instance_id, future)

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look(self) -> None:
        pause_s = LOOK_MIN_S
        seen = seen_here = self._store.change_count()
        rested_s = 0.0
        while self._endings.awaited():
            await asyncio.sleep(pause_s)
            rested_s += pause_s
            changes = self._store.change_count()
            # At the longest pause look anyway: a change count is a hint, the rows are the truth.
            if changes == seen and pause_s < LOOK_MAX_S:
                pause_s = min(pause_s * 1.5, LOOK_MAX_S)
                continue
            pause_s = LOOK_MIN_S if changes != seen else LOOK_MAX_S
            seen = changes
            looks_here = rested_s >= (LOOK_MAX_S if changes != seen_here else LOOK_HERE_S)
            if looks_here:
                seen_here, rested_s = changes, 0.0
            await self._look_once(with_here=looks_here)

    async def _look_once(self, *, with_here: bool) -> None:
        ids = [one for one in self._endings.awaited() if with_here or not self._is_here(one)]
        if not ids:
            return
        try:
            rows = await self._store.read_instances(ids)
        except StoreError:
            logger.warning("could not look for results this time", exc_info=True)
            return
        for row in rows:
            if row is not None and row.status.is_terminal:
                self._tell(row.instance_id, row.incarnation, outcome_in(row))


def outcome_in(row: InstanceRow) -> Outcome:
    """Return how an ended instance ended."""
    return Outcome(row.status, row.output, row.reason, row.digest or b"")
