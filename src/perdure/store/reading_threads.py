"""Threads that read for event loops.

Less than an executor: that makes two futures, a lock and a chain of callbacks for each call, which
costs more than a row that is read by its key. Here a call is one message there and one back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from perdure.errors import StoreError
from perdure.store.loop_calls import LoopCalls

T = TypeVar("T")


class _ReadCall(NamedTuple):
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    run: Callable[..., Any]
    args: tuple[object, ...]


class ReadingThreads:
    """A few threads, which begin with the first call.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._loops = LoopCalls()
        self._calls: SimpleQueue[_ReadCall | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._is_closed = False

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Run a function on one of the threads. One whose caller waits no more is not begun.

        Raises:
            StoreError: The store was closed.
        """
        if not self._threads:
            self._start()
        loop = self._loops.attend()
        answer: asyncio.Future[T] = loop.create_future()
        self._calls.put(_ReadCall(loop, answer, function, args))
        return await answer

    def close(self) -> None:
        """Wait for what is being read. Harmless the second time."""
        with self._starting:
            self._is_closed = True
            threads, self._threads = self._threads, []
        for _ in threads:
            self._calls.put(None)
        for thread in threads:
            thread.join()
        self._loops.close()

    def _start(self) -> None:
        with self._starting:
            if self._is_closed:
                raise StoreError("the store is closed")
            if not self._threads:
                self._threads = [
                    threading.Thread(target=self._serve, name=f"perdure-read-{one}", daemon=True)
                    for one in range(self._count)
                ]
                for thread in self._threads:
                    thread.start()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            if not call.answer.cancelled():
                self._answer(call)
            del call  # A thread that waits keeps nothing.

    def _answer(self, call: _ReadCall) -> None:
        found, error = None, None
        try:
            found = call.run(*call.args)
        except BaseException as raised:
            error = raised
        self._loops.call(call.loop, partial(_tell, call.answer, found, error))


def _tell(answer: asyncio.Future[Any], found: object, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(found)
    else:
        answer.set_exception(error)
