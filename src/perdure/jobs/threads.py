"""Threads for code that blocks, which can be left behind.

A `ThreadPoolExecutor` joins its threads when the interpreter exits, so one call that never returns
keeps the process alive for ever. These are daemon threads: `close` ends those that are idle, and
one that hangs goes down with the process. There is no limit here; the caller has one.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

T = TypeVar("T")


class Threads:
    """As many daemon threads as there were calls at the same time. Belongs to one loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._count = 0
        self._busy = 0

    def call(self, fn: Callable[[], T]) -> asyncio.Future[T]:
        """Run `fn` in a thread. Cancelling the future does not stop it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._busy >= self._count:
            self._add_thread()
        self._busy += 1

        def settle(result: object, error: BaseException | None) -> None:
            self._busy -= 1
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast(T, result))  # fn returned it

        self._calls.put(_Call(loop, fn, settle))
        return future

    def _add_thread(self) -> None:
        name = f"{self._name}-{self._count + 1}"
        thread = threading.Thread(target=_work, args=(self._calls,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The system gives us no more: the call waits for one of those that we have.
            if self._count == 0:
                raise
        else:
            self._count += 1

    def close(self) -> None:
        """End the threads: idle ones now, busy ones when their call returns."""
        for _ in range(self._count):
            self._calls.put(None)
        self._count = 0


class _Call(NamedTuple):
    loop: asyncio.AbstractEventLoop
    fn: Callable[[], object]
    settle: Callable[[object, BaseException | None], None]


def _work(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        result, error = None, None
        try:
            result = call.fn()
        except BaseException as raised:
            error = raised
        try:
            call.loop.call_soon_threadsafe(call.settle, result, error)
        except RuntimeError:
            # The loop was closed in the meantime; there is no caller to be told.
            return
        # An idle thread must not keep the last call's values alive.
        del call, result, error
