"""Wait for something that blocks while the event loop goes on, also when the interpreter exits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def wait_off_loop(block: Callable[[], T]) -> T:
    """Run a function that blocks, on a thread of its own.

    Python shuts its executors down before it calls what was registered with `atexit`, and a store
    is closed there, too. So this is not `asyncio.to_thread`.
    """
    answer: Future[T] = Future()
    # From here on it cannot be cancelled: the thread will set it.
    answer.set_running_or_notify_cancel()

    def run() -> None:
        try:
            answer.set_result(block())
        except BaseException as error:
            answer.set_exception(error)

    thread = threading.Thread(target=run, name="perdure-wait", daemon=True)
    thread.start()
    try:
        return await asyncio.wrap_future(answer)
    finally:
        if answer.done():
            # It has nothing left to do: closing a store leaves no thread behind.
            thread.join()
