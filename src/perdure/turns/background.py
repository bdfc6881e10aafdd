"""Work that runs by itself, with one boundary for what goes wrong in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from perdure.errors import StoreError
from perdure.telemetry import error_facts

logger = logging.getLogger(__name__)


class Background:
    """Tasks that are not awaited. They are kept until they end, and their errors are logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something on its own."""
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """What runs now."""
        return frozenset(self._tasks)

    async def drain(self) -> None:
        """Wait until everything has ended, also what is spawned meanwhile."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            # Only what the store says is safe to repeat: anything else may quote values of users.
            logger.error(
                "a part of the worker failed; what it held will be claimed again",
                exc_info=isinstance(error, StoreError),
                extra=error_facts(error),
            )
