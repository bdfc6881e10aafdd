"""Work that runs by itself, with one boundary for what goes wrong in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from perdure.errors import StoreError
from perdure.telemetry import error_facts

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Background:
    """Tasks that are not awaited. They are kept until they end, and their errors are logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something on its own."""
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def hear_answer(self, answer: Awaitable[T], heard: Callable[[T], None]) -> None:
        """Call a function with an answer when it comes. One that comes by a future takes no task,
        and no pass of the loop for that."""
        future = asyncio.ensure_future(answer)
        self._tasks.add(future)
        future.add_done_callback(partial(self._came, heard))

    @property
    def tasks(self) -> frozenset[asyncio.Future[Any]]:
        """What runs, and what is waited for, now."""
        return frozenset(self._tasks)

    async def drain(self) -> None:
        """Wait until everything has ended, also what is spawned meanwhile."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def _came(self, heard: Callable[[T], None], answer: asyncio.Future[T]) -> None:
        self._tasks.discard(answer)
        if not answer.cancelled():
            try:
                heard(answer.result())
            except Exception as error:
                _log(error)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            _log(error)


def _log(error: Exception) -> None:
    # Only what the store says is safe to repeat: anything else may quote values of users.
    logger.error(
        "a part of the worker failed; what it held will be claimed again",
        exc_info=error if isinstance(error, StoreError) else None,
        extra=error_facts(error),
    )
