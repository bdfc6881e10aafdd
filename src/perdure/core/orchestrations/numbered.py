"""What asyncio makes on the loop of an orchestration: tasks and futures that hash by their creation
number, so that a set of them has one order in every process, and the callbacks in its queue.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from perdure.errors import UsageError

T = TypeVar("T")


class NumberedTask(asyncio.Task[T]):
    """A task that hashes by its creation number."""

    # Set after construction: asyncio keeps all tasks of the process in one set, and equal hashes of
    # the first tasks of many executions would make that set slow. The set keeps the hash at birth.
    number: int | None = None
    own_context: contextvars.Context
    """What it runs in; Python 3.11 does not tell."""

    def __hash__(self) -> int:
        return id(self) >> 4 if self.number is None else self.number

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop; refuse inside `all_tasks`, whose set is filled in order of address."""
        loop = super().get_loop()
        frame = sys._getframe(1)
        if frame.f_code is _GET_LOOP and asyncio._get_running_loop() is loop:
            caller = frame.f_back
            if caller is not None and caller.f_code.co_name in _ALL_TASKS:
                raise UsageError(
                    "asyncio.all_tasks() has no fixed order inside an orchestration: keep the "
                    "tasks you make in a list, or use a TaskGroup"
                )
        return loop


class NumberedFuture(asyncio.Future[T]):
    """A future that hashes by its creation number."""

    number: int = 0

    def __hash__(self) -> int:
        return self.number


class NumberedGathering(asyncio.tasks._GatheringFuture):  # type: ignore[misc,name-defined]
    # Private to asyncio, hence unknown to typeshed.
    """What `gather` returns, hashing by its creation number."""

    number: int = 0

    def __hash__(self) -> int:
        return self.number


GATHERING = asyncio.tasks._GatheringFuture.__init__.__code__  # type: ignore[attr-defined]  # as above
"""The code of asyncio that makes what `gather` returns."""
_GET_LOOP = asyncio.futures._get_loop.__code__  # type: ignore[attr-defined]  # as above
_ALL_TASKS = {"all_tasks", "<setcomp>"}
"""Names of the frames in which asyncio.all_tasks looks at tasks, over the Python versions."""


class ReadyHandle(asyncio.Handle):
    """A callback in the queue, made without asking the loop for its debug mode."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
